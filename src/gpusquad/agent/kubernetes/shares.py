"""Which part of its card a container asked for, in any of the ways that people write it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from gpusquad.agent.kubernetes.quantities import parse_quantity
from gpusquad.model.job import Share
from gpusquad.model.units import WHOLE_MILLI

_MIB = 2**20
_MEMORY = "gpusquad.io/gpu-memory"
_SM_PERCENT = "gpusquad.io/gpu-sm-percent"
# HAMi's names for the limits of a container.
_HAMI_MEMORY_MIB, _HAMI_MEMORY_PERCENT, _HAMI_SM_PERCENT = (
    "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores",
)  # fmt: skip
# KAI's annotations on a pod.
_KAI_FRACTION, _KAI_MEMORY_MIB = "gpu-fraction", "gpu-memory"


def share_of(limits: Mapping[str, str], annotations: Mapping[str, str], card_memory_bytes: int) -> Share | None:
    """None: the whole card. Invalid: a number that is none."""
    memory_bytes = _memory_bytes(limits, annotations, card_memory_bytes)
    sm_milli = min(max(_sm_milli(limits, annotations), 0), WHOLE_MILLI)
    return Share(memory_bytes, sm_milli) if memory_bytes > 0 or sm_milli > 0 else None


def _memory_bytes(limits: Mapping[str, str], annotations: Mapping[str, str], card_memory_bytes: int) -> int:
    if _MEMORY in limits:
        return int(parse_quantity(limits[_MEMORY]))
    if _HAMI_MEMORY_MIB in limits:
        return int(parse_quantity(limits[_HAMI_MEMORY_MIB]) * _MIB)
    if _HAMI_MEMORY_PERCENT in limits:
        return int(parse_quantity(limits[_HAMI_MEMORY_PERCENT]) * card_memory_bytes / 100)
    if _KAI_MEMORY_MIB in annotations:
        return int(parse_quantity(annotations[_KAI_MEMORY_MIB]) * _MIB)
    return int(_fraction(annotations) * card_memory_bytes)


def _sm_milli(limits: Mapping[str, str], annotations: Mapping[str, str]) -> int:
    for name in (_SM_PERCENT, _HAMI_SM_PERCENT):
        if name in limits:
            return int(parse_quantity(limits[name]) * WHOLE_MILLI / 100)
    return int(_fraction(annotations) * WHOLE_MILLI)


def _fraction(annotations: Mapping[str, str]) -> Decimal:
    return parse_quantity(annotations.get(_KAI_FRACTION, "0"))
