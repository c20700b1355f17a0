"""Which part of its card a container asked for, in any of the ways that people write it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from gpusquad.kube.quantity import parse_quantity
from gpusquad.model.errors import Invalid
from gpusquad.model.job import PLACE_MILLI, Isolation, Share
from gpusquad.model.units import WHOLE_MILLI

_MIB = 2**20
_MEMORY = "gpusquad.io/gpu-memory"
_MEMORY_PERCENT = "gpusquad.io/gpu-memory-percent"
_SM_PERCENT = "gpusquad.io/gpu-sm-percent"
_ISOLATION = "gpusquad.io/isolation"
_SLOT = "nvidia.com/gpu.shared"
"""A place beside others with no part promised."""
# HAMi's names for the limits of a container.
_HAMI_MEMORY_MIB, _HAMI_MEMORY_PERCENT, _HAMI_SM_PERCENT = (
    "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores",
)  # fmt: skip
# KAI's annotations on a pod.
_KAI_FRACTION, _KAI_MEMORY_MIB = "gpu-fraction", "gpu-memory"


def share_of(limits: Mapping[str, str], annotations: Mapping[str, str]) -> Share | None:
    """None: the whole card. Invalid: a number that is none, or a word that is not known."""
    isolation = _isolation(annotations)
    memory_bytes, memory_milli = _memory_bytes(limits, annotations), _memory_milli(limits, annotations)
    sm_milli = _sm_milli(limits, annotations)
    has_slot = _amount(limits, _SLOT) > 0
    if not (memory_bytes or memory_milli or sm_milli):
        return Share(0, PLACE_MILLI, isolation) if has_slot else None
    if memory_milli == WHOLE_MILLI and not memory_bytes and not has_slot:
        return None  # nobody else fits
    return Share(memory_bytes, sm_milli, isolation, memory_milli)


def _isolation(annotations: Mapping[str, str]) -> Isolation:
    match annotations.get(_ISOLATION, "").strip():
        case "" | "shared":
            return "shared"
        case "isolated":
            return "isolated"
        case other:
            raise Invalid(f"annotation {_ISOLATION}", f"{other!r:.80} is not known", 'write "shared" or "isolated"')


def _memory_bytes(limits: Mapping[str, str], annotations: Mapping[str, str]) -> int:
    in_mib = _amount(limits, _HAMI_MEMORY_MIB) or _amount(annotations, _KAI_MEMORY_MIB)
    return int(_amount(limits, _MEMORY) or in_mib * _MIB)


def _memory_milli(limits: Mapping[str, str], annotations: Mapping[str, str]) -> int:
    by_percent = _percent_milli(limits, _MEMORY_PERCENT) or _percent_milli(limits, _HAMI_MEMORY_PERCENT)
    return by_percent or _fraction_milli(annotations)


def _sm_milli(limits: Mapping[str, str], annotations: Mapping[str, str]) -> int:
    by_percent = _percent_milli(limits, _SM_PERCENT) or _percent_milli(limits, _HAMI_SM_PERCENT)
    return by_percent or _fraction_milli(annotations)


def _percent_milli(limits: Mapping[str, str], name: str) -> int:
    return _at_most_whole(int(_amount(limits, name) * WHOLE_MILLI / 100))


def _fraction_milli(annotations: Mapping[str, str]) -> int:
    """As the scheduler counts it: rounded, and never to nothing."""
    fraction = _amount(annotations, _KAI_FRACTION)
    return _at_most_whole(max(1, round(fraction * WHOLE_MILLI))) if fraction > 0 else 0


def _amount(said: Mapping[str, str], name: str) -> Decimal:
    """What is empty was not said, for the scheduler too."""
    return parse_quantity(said.get(name, "").strip() or "0")


def _at_most_whole(milli: int) -> int:
    return min(max(milli, 0), WHOLE_MILLI)
