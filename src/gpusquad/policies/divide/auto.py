"""Auto: the policy that fits the clients' SLOs and priorities, changed after these have changed for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gpusquad.model.squad import (
    DividePolicy,
    DivideState,
    EffectiveRate,
    GpuClient,
    PolicyMemory,
    ShareableCard,
    Squad,
)
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


@dataclass(frozen=True)
class AutoChoice(PolicyMemory):
    """The policy in use, and the one that would fit better."""

    survives_policy_change: ClassVar[bool] = False
    chosen: str = ""
    wanted: str = ""
    wanted_for: int = 0
    """Consecutive squads in which ``wanted`` fitted better."""


@register("divide", "auto")
@dataclass(frozen=True)
class Auto:
    """Chooses among the other policies by the clients' SLOs, reports why, and switches slowly."""

    hold: int = 100
    """Consecutive squads for which another policy must fit better before it is used."""

    def __post_init__(self) -> None:
        check(self, "divide.auto", hold=COUNT)

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        wanted, why = fitting(clients)
        choice = self._choice(wanted, state.get(AutoChoice))
        squad = _POLICIES[choice.chosen].next_squad(clients, card, effective, state.put(choice))
        return replace(squad, why=f"{self._words(choice, wanted, why)}; {squad.why}")

    def _choice(self, wanted: str, before: AutoChoice) -> AutoChoice:
        if wanted == before.chosen:
            return AutoChoice(wanted)
        for_squads = before.wanted_for + 1 if wanted == before.wanted else 1
        if not before.chosen or for_squads >= self.hold:
            return AutoChoice(wanted)
        return AutoChoice(before.chosen, wanted, for_squads)

    def _words(self, choice: AutoChoice, wanted: str, why: str) -> str:
        if choice.chosen == wanted:
            return f"{wanted}, because {why}"
        return f"still {choice.chosen}; {wanted} for {choice.wanted_for} of {self.hold} squads, because {why}"


def fitting(clients: Sequence[GpuClient]) -> tuple[str, str]:
    """The policy for these clients, and why. Idle clients count too, because idleness changes all the time."""
    kinds = {kind for client in clients for kind in _kinds(client)}
    if len(clients) < 2:
        return "equal", "no client has to share"
    if "latency" in kinds or len(kinds) == 1:
        return "slo", f"there are SLOs of {' and '.join(sorted(kinds))}"
    if kinds:
        return "hybrid", f"SLOs of several kinds have to be weighed: {', '.join(sorted(kinds))}"
    if len({client.priority for client in clients}) > 1:
        return "priority", "there are no SLOs, but priorities differ"
    if sum(client.remaining_us is not None for client in clients) > len(clients) / 2:
        return "jct", "there are no SLOs, and the remaining work of most clients is known"
    return "equal", "SLOs, priorities and remaining work do not distinguish the clients"


def _kinds(client: GpuClient) -> list[str]:
    if client.slo is None:
        return []
    named = (("latency", client.slo.latency_us), ("throughput", client.slo.throughput_per_s),
             ("deadline", client.slo.deadline_us), ("availability", client.slo.availability_ratio))  # fmt: skip
    return [kind for kind, value in named if value is not None]
