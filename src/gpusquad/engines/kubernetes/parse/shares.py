"""Parts of a card, under the three sets of names that people use.

- ours: the container asks for ``gpusquad.io/gpu-memory`` (bytes) or ``gpusquad.io/gpu-memory-percent``, and
  ``gpusquad.io/gpu-sm-percent`` (1 to 100);
- HAMi's: ``nvidia.com/gpumem`` (MiB), ``nvidia.com/gpumem-percentage`` and ``nvidia.com/gpucores`` (percent);
- KAI's: annotations of the pod, ``gpu-fraction`` (0 to 1) and ``gpu-memory`` (MiB).

Whichever it is, the annotation ``gpusquad.io/isolation`` says how it lives beside others: ``shared`` or ``isolated``.

All go with ``nvidia.com/gpu: 1`` in one container: without it the kubelet never asks the device plugin, and the
container would see no card. ``nvidia.com/gpu.shared: 1`` is a slot with no part promised.

A *fraction of the card's memory* (any of the percentages, ``gpu-fraction``) has no size in bytes before a card is
chosen: it stays a fraction, and so does the memory of one who names SMs alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from gpusquad.engines.kubernetes.parse.cards import SHARED, cards_in
from gpusquad.engines.kubernetes.parse.container_requests import Amounts, ContainerRequest
from gpusquad.engines.kubernetes.parse.quantity import WHOLE
from gpusquad.kube.annotations import at, text_of
from gpusquad.kube.errors import MalformedField, UnsupportedField, short
from gpusquad.kube.objects import GPU, PREFIX, Object, annotations_of
from gpusquad.model.job import PLACE_MILLI, Isolation, Share
from gpusquad.model.units import WHOLE_MILLI

MEMORY = PREFIX + "gpu-memory"
MEMORY_PERCENT = PREFIX + "gpu-memory-percent"
SM_PERCENT = PREFIX + "gpu-sm-percent"
HAMI_MEMORY = "nvidia.com/gpumem"
HAMI_MEMORY_PERCENT = "nvidia.com/gpumem-percentage"
HAMI_CORES = "nvidia.com/gpucores"
RESOURCES = (MEMORY, MEMORY_PERCENT, SM_PERCENT, HAMI_MEMORY, HAMI_MEMORY_PERCENT, HAMI_CORES)
"""What a container asks for to have a part of its card. None of them is something a node has so many of."""
ISOLATION = PREFIX + "isolation"
KAI_FRACTION = "gpu-fraction"
KAI_MEMORY = "gpu-memory"
KAI_DEVICES = "gpu-fraction-num-devices"
KAI_CONTAINER = "gpu-fraction-container-name"

SLOT = Share(sm_milli=PLACE_MILLI)
"""A slot of a card with nothing promised."""

_NAMES = frozenset((*RESOURCES, SHARED))
_MIB = 2**20
_PERCENT_MILLI = WHOLE_MILLI // 100
_MOST_BYTES = 2**43
"""Of one card. Who writes 8Gi where MiB are counted is told so, instead of waiting for a card of 8 PiB."""
_CURE = f"ask for {GPU}: 1 beside it, as request and limit of the same container"


@dataclass(frozen=True, slots=True)
class ShareRequest:
    """What was asked for of one card, before it is known whether the pod may have that."""

    memory_bytes: int = 0
    sm_milli: int = 0
    memory_milli: int = 0
    is_whole: bool = False
    """All of its memory: nobody else fits, so it is the whole card."""


def share_of(pod: Object, asked: Sequence[ContainerRequest]) -> Share | None:
    """The part of a card that a pod asks for; None: whole cards, or none."""
    said, amounts = annotations_of(pod), _amounts(asked)
    isolation = _isolation(said)
    found = [(name, part) for name, read in _WAYS if (part := read(said, amounts)) is not None]
    if not found and not amounts.get(SHARED):
        return None
    if len(found) > 1:
        names = ", ".join(name for name, _ in found)
        raise UnsupportedField("share", f"asked for in {len(found)} ways: {names}", "keep one of them")
    _check_containers(asked, text_of(said, KAI_CONTAINER))
    part = found[0][1] if found else None
    if part is None:
        return replace(SLOT, isolation=isolation)
    if part.is_whole and not amounts.get(SHARED):
        return None
    return Share(part.memory_bytes, part.sm_milli, isolation, part.memory_milli)


def _isolation(said: Mapping[str, str]) -> Isolation:
    """Looked at even where whole cards are asked for, which nobody else uses: a word that is none is a mistake."""
    match text_of(said, ISOLATION):
        case "" | "shared":
            return "shared"
        case "isolated":
            return "isolated"
        case other:
            raise MalformedField(at(ISOLATION), f"{short(other)} is not known", 'write "shared" or "isolated"')


def _check_containers(asked: Sequence[ContainerRequest], named: str) -> None:
    """One container, one card, and the part asked for by that very container."""
    cards = cards_in(asked)
    if not cards:
        raise UnsupportedField(
            "share", f"asks for a part of a GPU without {GPU}, so its container would get no card", _CURE
        )
    if len(cards) > 1:
        names = ", ".join(name for name, _ in cards)
        raise UnsupportedField(
            "share", f"several containers ask for GPUs ({names})", "give the share to one container alone"
        )
    holder, count = cards[0]
    if count != 1:
        raise UnsupportedField(
            "share", f"asks for {count} GPUs and a part of each", f"ask for {GPU}: 1, or for whole GPUs"
        )
    for each in asked:
        if each.name != holder and any(map(each.amounts.get, RESOURCES)):
            raise UnsupportedField("share", f"container {each.name} asks for a part of a GPU without {GPU}", _CURE)
    if named and named != holder:
        raise UnsupportedField("share", f"{KAI_CONTAINER} is {named}, but {holder} asks for the GPU", _CURE)


def _amounts(asked: Sequence[ContainerRequest]) -> Amounts:
    """What its containers ask for of these resources. That only one of them does is checked later."""
    result: Amounts = {}
    for each in asked:
        for name, amount in each.amounts.items():
            if name in _NAMES:
                result[name] = max(result.get(name, 0), amount)
    return result


def _ours(said: Mapping[str, str], asked: Amounts) -> ShareRequest | None:
    return _part(asked, (MEMORY, MEMORY_PERCENT, SM_PERCENT), 1)


def _hami(said: Mapping[str, str], asked: Amounts) -> ShareRequest | None:
    return _part(asked, (HAMI_MEMORY, HAMI_MEMORY_PERCENT, HAMI_CORES), _MIB, "it is counted in MiB")


def _part(asked: Amounts, names: tuple[str, str, str], unit: int, cure: str = "") -> ShareRequest | None:
    """By the names for memory in such units, and for percents of the memory and of the SMs."""
    in_units, of_memory, of_sms = names
    memory_bytes = _whole(asked, in_units, _MOST_BYTES // unit, cure) * unit
    percent, sm_percent = _whole(asked, of_memory, 100), _whole(asked, of_sms, 100)
    if memory_bytes and percent:
        raise UnsupportedField("share", f"asks for {in_units} and {of_memory} at once", "keep one of them")
    if not (memory_bytes or percent or sm_percent):
        return None
    return ShareRequest(memory_bytes, sm_percent * _PERCENT_MILLI, percent * _PERCENT_MILLI, is_whole=percent == 100)


def _kai(said: Mapping[str, str], asked: Amounts) -> ShareRequest | None:
    fraction, memory = text_of(said, KAI_FRACTION), text_of(said, KAI_MEMORY)
    if fraction and memory:
        raise UnsupportedField("share", f"says {KAI_FRACTION} and {KAI_MEMORY} at once", "keep one of them")
    if text_of(said, KAI_DEVICES) not in ("", "1"):
        raise UnsupportedField(at(KAI_DEVICES), "a part of several GPUs", "ask for a part of one, or for whole GPUs")
    if fraction:
        part = _fraction(fraction)
        milli = max(1, round(part * WHOLE_MILLI))
        return ShareRequest(0, milli, milli, is_whole=part == 1)
    return ShareRequest(_mib(memory)) if memory else None


_WAYS: tuple[tuple[str, Callable[[Mapping[str, str], Amounts], ShareRequest | None]], ...] = (
    ("gpusquad.io/gpu-*", _ours),
    ("nvidia.com/gpumem or gpucores", _hami),
    ("the annotations gpu-fraction or gpu-memory", _kai),
)


def _whole(asked: Amounts, name: str, most: int, cure: str = "") -> int:
    amount = asked.get(name, 0)
    if amount % WHOLE or amount > most * WHOLE:
        raise UnsupportedField(f"resources[{name}]", f"{amount / WHOLE:g} is not a whole number up to {most}", cure)
    return amount // WHOLE


def _fraction(text: str) -> Fraction:
    if re.fullmatch(r"\d?\.\d{1,9}|[01](\.\d{0,9})?", text, re.ASCII) is None or not 0 < Fraction(text) <= 1:
        raise MalformedField(at(KAI_FRACTION), f"{short(text)} is not a part of one GPU", 'write for example "0.5"')
    return Fraction(text)


def _mib(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and 0 < int(text) <= _MOST_BYTES // _MIB):
        raise MalformedField(at(KAI_MEMORY), f"{short(text)} is not a number of MiB", 'write for example "8192"')
    return int(text) * _MIB
