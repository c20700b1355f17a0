"""State of a node at one moment: its cards, their processes and its pods."""

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
    """All parts are of the same moment."""

    at_us: int
    readings: Sequence[CardReading]
    processes: Sequence[JobProcess]
    owners: Mapping[int, str]
    """Pods (namespace/name) by the PIDs of their processes."""
    pods: Sequence[Pod]
    listed: Sequence[ListedPod]
    knows_all: bool = True
    """False: the pods, or their devices, are not known yet."""


def hidden_pods(look: NodeSnapshot) -> frozenset[str]:
    """Pods with cards of which no process is visible. What they do is unknown."""
    seen = set(look.owners.values())
    listed = {entry.key for entry in look.listed if entry.slots}
    ended = {pod.key for pod in look.pods if pod.has_ended}
    mine = {pod.key for pod in look.pods if pod.run is not None}
    return frozenset((listed | mine) - seen - ended)


def may_be_hidden(card: str, look: NodeSnapshot, hidden: frozenset[str]) -> bool:
    """A process on the card without a known owner may belong to a pod whose processes are not visible."""
    if not look.knows_all:
        return True
    holders = holders_of(look.listed)
    on_it = (held for held in holders if physical(held) == physical(card))  # a process may appear on each virtual card
    return any(f"{namespace}/{pod}" in hidden for held in on_it for namespace, pod, _ in holders[held])
