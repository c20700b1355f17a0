"""The share of a card that limits and annotations request. The scheduler and the agent both use this parser.

There are three sets of names:

- gpusquad's container limits: ``gpusquad.io/gpu-memory`` (bytes) or ``gpusquad.io/gpu-memory-percent``, and
  ``gpusquad.io/gpu-sm-percent`` (1 to 100);
- HAMi's container limits: ``nvidia.com/gpumem`` (MiB) or ``nvidia.com/gpumem-percentage``, and ``nvidia.com/gpucores``
  (percent);
- KAI's pod annotations: ``gpu-fraction`` (0 to 1) or ``gpu-memory`` (MiB).

With any of them, the annotation ``gpusquad.io/isolation`` is ``shared`` or ``isolated``. ``nvidia.com/gpu.shared: 1``
requests a device slot without a quota.

A fraction of the memory (a percentage or ``gpu-fraction``) has no size in bytes before a card is chosen, so it stays a
fraction. Fractions are rounded to thousandths of a card and never to zero. A request for 1000 thousandths of the memory
leaves no room for a neighbour: it is the whole card, unless it comes with a device slot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpusquad.kube.annotations import at, text_of
from gpusquad.kube.errors import MalformedField, UnsupportedField, short
from gpusquad.kube.names import (
    GPU_MEMORY,
    GPU_MEMORY_PERCENT,
    GPU_SHARED,
    GPU_SM_PERCENT,
    HAMI_MEMORY_MIB,
    HAMI_MEMORY_PERCENT,
    HAMI_SM_PERCENT,
    ISOLATION,
    KAI_DEVICES,
    KAI_FRACTION,
    KAI_MEMORY_MIB,
    SHARE_RESOURCES,
)
from gpusquad.kube.quantity import UNIT_NANOS, parse_quantity
from gpusquad.model.job import SLOT_SM_MILLI, Isolation, Share
from gpusquad.model.units import WHOLE_MILLI

SHARE_LIMITS = frozenset((*SHARE_RESOURCES, GPU_SHARED))
"""Limits that decide the share."""

_MIB = 2**20
_PERCENT_MILLI = WHOLE_MILLI // 100
_MAX_BYTES = 2**43
"""Of one card. A limit of 8Gi where MiB are counted is refused: no card has 8 PiB."""


@dataclass(frozen=True, slots=True)
class ShareRequest:
    """What was requested of one card, before the rules for the whole pod are checked."""

    memory_bytes: int = 0
    sm_milli: int = 0
    memory_milli: int = 0
    isolation: Isolation = "shared"
    has_slot: bool = False

    @property
    def share(self) -> Share | None:
        """None: the whole card."""
        if not (self.memory_bytes or self.memory_milli or self.sm_milli):
            return Share(sm_milli=SLOT_SM_MILLI, isolation=self.isolation)
        if self.memory_milli == WHOLE_MILLI and not self.has_slot:
            return None
        return Share(self.memory_bytes, self.sm_milli, self.isolation, self.memory_milli)


def container_share(limits: Mapping[str, object], annotations: Mapping[str, str]) -> Share | None:
    """The share of a container with these limits, in a pod with these annotations. None: the whole card."""
    amounts = {name: parse_quantity(limits[name], "limits", name) for name in SHARE_LIMITS & limits.keys()}
    request = share_request(amounts, annotations)
    return request.share if request is not None else None


def share_request(amounts: Mapping[str, int], annotations: Mapping[str, str]) -> ShareRequest | None:
    """``amounts`` are billionths of each resource. None: no share is requested.

    The isolation is checked even if whole cards are requested, because a misspelled value is a mistake of the user."""
    isolation = _isolation(annotations)
    found = [(names, sizes) for names, parse in _CONVENTIONS if any(sizes := parse(amounts, annotations))]
    has_slot = amounts.get(GPU_SHARED, 0) > 0
    if not found and not has_slot:
        return None
    if len(found) > 1:
        names = ", ".join(names for names, _ in found)
        raise UnsupportedField("share", f"asked for in {len(found)} ways: {names}", "keep one of them")
    return ShareRequest(*(found[0][1] if found else _NOTHING), isolation, has_slot)


_Sizes = tuple[int, int, int]
"""Bytes of memory, thousandths of the SMs, thousandths of the memory."""
_NOTHING: _Sizes = (0, 0, 0)


def _isolation(annotations: Mapping[str, str]) -> Isolation:
    match text_of(annotations, ISOLATION):
        case "" | "shared":
            return "shared"
        case "isolated":
            return "isolated"
        case other:
            raise MalformedField(at(ISOLATION), f"{short(other)} is not known", 'write "shared" or "isolated"')


def _gpusquad_sizes(amounts: Mapping[str, int], annotations: Mapping[str, str]) -> _Sizes:
    return _limit_sizes(amounts, (GPU_MEMORY, GPU_MEMORY_PERCENT, GPU_SM_PERCENT), 1)


def _hami_sizes(amounts: Mapping[str, int], annotations: Mapping[str, str]) -> _Sizes:
    return _limit_sizes(amounts, (HAMI_MEMORY_MIB, HAMI_MEMORY_PERCENT, HAMI_SM_PERCENT), _MIB, "it is counted in MiB")


def _limit_sizes(amounts: Mapping[str, int], names: tuple[str, str, str], unit: int, cure: str = "") -> _Sizes:
    """``names``: memory in units of ``unit`` bytes, percent of the memory, percent of the SMs."""
    memory, memory_percent, sm_percent = names
    memory_bytes = _whole(amounts, memory, _MAX_BYTES // unit, cure) * unit
    percent, of_sms = _whole(amounts, memory_percent, 100), _whole(amounts, sm_percent, 100)
    if memory_bytes and percent:
        raise UnsupportedField("share", f"asks for {memory} and {memory_percent} at once", "keep one of them")
    return memory_bytes, of_sms * _PERCENT_MILLI, percent * _PERCENT_MILLI


def _kai_sizes(amounts: Mapping[str, int], annotations: Mapping[str, str]) -> _Sizes:
    fraction, memory = text_of(annotations, KAI_FRACTION), text_of(annotations, KAI_MEMORY_MIB)
    if fraction and memory:
        raise UnsupportedField("share", f"says {KAI_FRACTION} and {KAI_MEMORY_MIB} at once", "keep one of them")
    if text_of(annotations, KAI_DEVICES) not in ("", "1"):
        raise UnsupportedField(at(KAI_DEVICES), "a part of several GPUs", "ask for a part of one, or for whole GPUs")
    if fraction:
        milli = max(1, round(_fraction(fraction) * WHOLE_MILLI))
        return 0, milli, milli
    return (_mib(memory), 0, 0) if memory else _NOTHING


_CONVENTIONS: tuple[tuple[str, Callable[[Mapping[str, int], Mapping[str, str]], _Sizes]], ...] = (
    ("gpusquad.io/gpu-*", _gpusquad_sizes),
    ("nvidia.com/gpumem or gpucores", _hami_sizes),
    ("the annotations gpu-fraction or gpu-memory", _kai_sizes),
)


def _whole(amounts: Mapping[str, int], name: str, highest: int, cure: str = "") -> int:
    amount = amounts.get(name, 0)
    if amount % UNIT_NANOS or amount > highest * UNIT_NANOS:
        problem = f"{amount / UNIT_NANOS:g} is not a whole number up to {highest}"
        raise UnsupportedField(f"resources[{name}]", problem, cure)
    return amount // UNIT_NANOS


def _fraction(text: str) -> Fraction:
    if re.fullmatch(r"\d?\.\d{1,9}|[01](\.\d{0,9})?", text, re.ASCII) is None or not 0 < Fraction(text) <= 1:
        raise MalformedField(at(KAI_FRACTION), f"{short(text)} is not a part of one GPU", 'write for example "0.5"')
    return Fraction(text)


def _mib(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and 0 < int(text) <= _MAX_BYTES // _MIB):
        raise MalformedField(at(KAI_MEMORY_MIB), f"{short(text)} is not a number of MiB", 'write for example "8192"')
    return int(text) * _MIB
