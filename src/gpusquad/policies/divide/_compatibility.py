"""Which clients may run together, by kernel length, SM demand and interference.

Two clients are compatible if the card does more work with both than time-sliced, and if neither endangers a latency
SLO of the other. A running kernel cannot be preempted, so a kernel that is long relative to the latency target delays
the other client whatever the shares are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpusquad.model.squad import EffectiveRate, GpuClient, sm_need
from gpusquad.model.units import WHOLE_MILLI

LONG_KERNEL = 0.25
"""Longest kernel of a neighbour, as a fraction of a latency target. Beyond it, meeting the target is luck."""


@dataclass(frozen=True, slots=True)
class PairCompatibility:
    """Two clients beside each other, each with all SMs."""

    own: float
    other: float
    """Rates."""
    fits: bool
    why: str

    @property
    def together(self) -> float:
        """Work of the card with both, in cards that each would need alone. Above 1, sharing gains."""
        return self.own + self.other


@dataclass(frozen=True)
class Compatibility:
    """Compatibility of all pairs. ``fits`` is symmetric, the rates are not."""

    pairs: dict[tuple[str, str], PairCompatibility]

    def fits(self, one: GpuClient, other: GpuClient) -> bool:
        return self.pairs[one.id, other.id].fits

    def all_fit(self, clients: Sequence[GpuClient]) -> bool:
        return all(self.fits(one, other) for at, one in enumerate(clients) for other in clients[:at])


def compatibility(clients: Sequence[GpuClient], effective: EffectiveRate, least_gain: float = 0.0) -> Compatibility:
    """``least_gain``: the combined work must exceed that of one client by this much."""
    pairs: dict[tuple[str, str], PairCompatibility] = {}
    for at, one in enumerate(clients):
        for other in clients[:at]:
            pairs[one.id, other.id] = found = pairing(one, other, effective, least_gain)
            pairs[other.id, one.id] = PairCompatibility(found.other, found.own, found.fits, found.why)
    return Compatibility(pairs)


def pairing(one: GpuClient, other: GpuClient, effective: EffectiveRate, least_gain: float = 0.0) -> PairCompatibility:
    own = effective(one, WHOLE_MILLI, ((other, WHOLE_MILLI),))
    others = effective(other, WHOLE_MILLI, ((one, WHOLE_MILLI),))
    for waits, blocks in ((one, other), (other, one)):
        if blocks_slo(blocks, waits):
            return PairCompatibility(
                own, others, False, f"kernels of {blocks.id} are too long for the latency target of {waits.id}"
            )
    if own + others <= 1.0 + least_gain and sm_need(one) + sm_need(other) > 1.0:
        return PairCompatibility(
            own, others, False, f"{one.id} and {other.id} need the same SMs: time-slicing is as good"
        )
    return PairCompatibility(own, others, True, f"together they do {own + others:.2f} of a card's work")


def blocks_slo(blocks: GpuClient, waits: GpuClient) -> bool:
    """Whether one kernel of ``blocks`` can take a large part of the latency target of ``waits``."""
    target_us = waits.slo.latency_us if waits.slo is not None else None
    return target_us is not None and blocks.kernel_us > LONG_KERNEL * target_us
