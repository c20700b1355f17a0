"""Auto: the policy that fits what the tenants want, changed when that has changed for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpusquad.model.squad import DividePolicy, DivideState, EffectiveRate, GpuClient, ShareableCard, Squad
from gpusquad.policies._bounds import check
from gpusquad.policies.divide._bounds import COUNT
from gpusquad.policies.divide.equal import Equal
from gpusquad.policies.divide.hybrid import Hybrid
from gpusquad.policies.divide.jct import Jct
from gpusquad.policies.divide.priority import Priority
from gpusquad.policies.divide.slo import SloDivide
from gpusquad.registry import register

_POLICIES: dict[str, DividePolicy] = {
    "equal": Equal(), "priority": Priority(), "jct": Jct(), "slo": SloDivide(), "hybrid": Hybrid(),
}  # fmt: skip


@register("divide", "auto")
@dataclass(frozen=True)
class Auto:
    """Chooses among the others by the tenants' goals, says why, and changes its mind slowly."""

    hold: int = 100
    """Another choice must have been the better one for so many squads in a row."""

    def __post_init__(self) -> None:
        check(self, "divide.auto", hold=COUNT)

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        wanted, why = fitting(clients)
        state = self._chosen(wanted, state)
        squad = _POLICIES[state.chosen].next_squad(clients, card, effective, state)
        return replace(squad, why=f"{self._words(state, wanted, why)}; {squad.why}")

    def _chosen(self, wanted: str, state: DivideState) -> DivideState:
        if wanted == state.chosen:
            return replace(state, wanted="", wanted_for=0)
        for_squads = state.wanted_for + 1 if wanted == state.wanted else 1
        if not state.chosen or for_squads >= self.hold:
            return replace(state, chosen=wanted, wanted="", wanted_for=0)
        return replace(state, wanted=wanted, wanted_for=for_squads)

    def _words(self, state: DivideState, wanted: str, why: str) -> str:
        if state.chosen == wanted:
            return f"{wanted}, because {why}"
        return f"{state.chosen} still; {wanted} for {state.wanted_for} of {self.hold} squads, because {why}"


def fitting(clients: Sequence[GpuClient]) -> tuple[str, str]:
    """The policy for these tenants, and why. Whether they are idle now does not matter: that changes all the time."""
    kinds = {kind for client in clients for kind in _kinds(client)}
    if len(clients) < 2:
        return "equal", "nobody has to share"
    if "latency" in kinds or len(kinds) == 1:
        return "slo", f"there are goals of {' and '.join(sorted(kinds))}"
    if kinds:
        return "hybrid", f"goals of several kinds have to be weighed: {', '.join(sorted(kinds))}"
    if len({client.priority for client in clients}) > 1:
        return "priority", "no goals, but priorities differ"
    if sum(client.remaining_us is not None for client in clients) > len(clients) / 2:
        return "jct", "no goals, and it is known how much most have left"
    return "equal", "neither goals, nor priorities, nor what is left tell them apart"


def _kinds(client: GpuClient) -> list[str]:
    if client.slo is None:
        return []
    named = (("latency", client.slo.latency_us), ("throughput", client.slo.throughput_per_s),
             ("deadline", client.slo.deadline_us), ("availability", client.slo.availability_ratio))  # fmt: skip
    return [kind for kind, value in named if value is not None]
