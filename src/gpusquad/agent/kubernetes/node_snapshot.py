"""One look at a node: its cards, who is on them, and which pods there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusquad.agent.inventory import CardReading, JobProcess
from gpusquad.agent.kubernetes.metrics import holders_of
from gpusquad.agent.kubernetes.pod_resources import ListedPod
from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.model.virtual import physical


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """All of it is of the same moment."""

    at_us: int
    readings: Sequence[CardReading]
    processes: Sequence[JobProcess]
    owners: Mapping[int, str]
    """Pods (namespace/name) by the pids of their processes."""
    pods: Sequence[Pod]
    listed: Sequence[ListedPod]
    knows_all: bool = True
    """False: nobody has said yet which pods there are, or what they were given."""


def hidden_pods(look: NodeSnapshot) -> frozenset[str]:
    """Pods with cards of which we see no process: perhaps we cannot, and then nothing is known of what they do."""
    seen = set(look.owners.values())
    listed = {entry.key for entry in look.listed if entry.slots}
    ended = {pod.key for pod in look.pods if pod.has_ended}
    mine = {pod.key for pod in look.pods if pod.run is not None}
    return frozenset((listed | mine) - seen - ended)


def may_be_hidden(card: str, look: NodeSnapshot, hidden: frozenset[str]) -> bool:
    """Whether a process on the card that seems to be nobody's may be of a pod that we cannot see into."""
    if not look.knows_all:
        return True
    holders = holders_of(look.listed)
    on_it = (held for held in holders if physical(held) == physical(card))  # it may be shown on each part of a card
    return any(f"{namespace}/{pod}" in hidden for held in on_it for namespace, pod, _ in holders[held])
