"""Who may run together: a matrix from the length of kernels, the demand for SMs, and interference.

Two tenants go together if the card does more work with both than it would by turns, and if neither stands in the way of
a goal of the other: a kernel cannot be taken back once it runs, so one that is long against the other's latency target
keeps it waiting whatever the shares are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpusquad.model.squad import EffectiveRate, GpuClient, sm_need
from gpusquad.model.units import WHOLE_MILLI

LONG_KERNEL = 0.25
"""A neighbour's kernel may take this part of a latency target: more of it, and the target hangs on luck."""


@dataclass(frozen=True, slots=True)
class PairCompatibility:
    """Two tenants beside each other, each with all SMs."""

    own: float
    other: float
    """Speeds over those alone."""
    goes: bool
    why: str

    @property
    def together(self) -> float:
        """The work the card does with both, in cards that each would need alone: above 1 sharing gains."""
        return self.own + self.other


@dataclass(frozen=True)
class Compatibility:
    """The matrix. It is symmetric in whether they go, not in what it costs each."""

    pairs: dict[tuple[str, str], PairCompatibility]

    def goes(self, one: GpuClient, other: GpuClient) -> bool:
        return self.pairs[one.id, other.id].goes

    def all_go(self, clients: Sequence[GpuClient]) -> bool:
        return all(self.goes(one, other) for at, one in enumerate(clients) for other in clients[:at])


def compatibility(clients: Sequence[GpuClient], effective: EffectiveRate, least_gain: float = 0.0) -> Compatibility:
    """``least_gain``: the work both do must exceed that of one by so much."""
    pairs: dict[tuple[str, str], PairCompatibility] = {}
    for at, one in enumerate(clients):
        for other in clients[:at]:
            pairs[one.id, other.id] = found = pairing(one, other, effective, least_gain)
            pairs[other.id, one.id] = PairCompatibility(found.other, found.own, found.goes, found.why)
    return Compatibility(pairs)


def pairing(one: GpuClient, other: GpuClient, effective: EffectiveRate, least_gain: float = 0.0) -> PairCompatibility:
    own = effective(one, WHOLE_MILLI, ((other, WHOLE_MILLI),))
    others = effective(other, WHOLE_MILLI, ((one, WHOLE_MILLI),))
    for waits, blocks in ((one, other), (other, one)):
        if blocks_slo(blocks, waits):
            return PairCompatibility(
                own, others, False, f"kernels of {blocks.id} are long against the target of {waits.id}"
            )
    if own + others <= 1.0 + least_gain and sm_need(one) + sm_need(other) > 1.0:
        return PairCompatibility(own, others, False, f"{one.id} and {other.id} want the same SMs: turns are as good")
    return PairCompatibility(own, others, True, f"together they do {own + others:.2f} of a card's work")


def blocks_slo(blocks: GpuClient, waits: GpuClient) -> bool:
    """A single kernel of the one may cost the other a good part of its latency target."""
    target_us = waits.slo.latency_us if waits.slo is not None else None
    return target_us is not None and blocks.kernel_us > LONG_KERNEL * target_us
