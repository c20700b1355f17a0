"""The nodes and cards that a job may run on, as evidence for advice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpusquad.model.cluster import Cluster, is_model
from gpusquad.model.job import Job
from gpusquad.predict.host_advice import HostRoom


class AdviceCard(NamedTuple):
    """A card for advice."""

    node: str
    model: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class AdviceNode:
    """A node for advice. 0: unknown."""

    id: str
    cpu_milli: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class EligibleNodes:
    """What a job may run on."""

    card_bytes: tuple[int, ...]
    """Memory sizes of its cards."""
    max_gpus: int
    """Cards of the node that has most of them."""
    room: HostRoom


class ClusterRoom:
    """Nodes of the cluster, by the models a job may run on."""

    def __init__(self, nodes: Iterable[AdviceNode], cards: Iterable[AdviceCard]) -> None:
        self._nodes = {node.id: node for node in nodes}
        self._cards = list(cards)
        self._found: dict[tuple[frozenset[str], bool], EligibleNodes] = {}

    def of(self, job: Job) -> EligibleNodes:
        """All nodes if the job uses no cards."""
        models = frozenset(model for request, _ in job.groups for model in request.gpu_models)
        key = models, any(request.cards for request, _ in job.groups)
        if key not in self._found:
            self._found[key] = self._eligible(models, key[1])
        return self._found[key]

    def _eligible(self, models: frozenset[str], uses_cards: bool) -> EligibleNodes:
        cards = [card for card in self._cards if not models or any(is_model(card.model, name) for name in models)]
        counts: dict[str, int] = {}
        for card in cards:
            counts[card.node] = counts.get(card.node, 0) + 1
        named = [self._nodes[node] for node in counts if node in self._nodes]
        nodes = named if uses_cards else list(self._nodes.values())
        sizes = tuple(sorted({card.memory_bytes for card in cards}))
        return EligibleNodes(sizes, max(counts.values(), default=1), _room(nodes, counts))


def room_of(cluster: Cluster) -> ClusterRoom:
    return ClusterRoom(
        [AdviceNode(node.id, node.cpu_milli, node.memory_bytes) for node in cluster.nodes],
        [AdviceCard(node.id, card.model, card.memory_bytes) for node in cluster.nodes for card in node.cards],
    )


def _room(nodes: Sequence[AdviceNode], cards: dict[str, int]) -> HostRoom:
    known = [node for node in nodes if node.cpu_milli and node.memory_bytes]
    with_cards = [(node, cards[node.id]) for node in known if node.id in cards]
    return HostRoom(
        cpu_milli=max((node.cpu_milli for node in known), default=0),
        memory_bytes=max((node.memory_bytes for node in known), default=0),
        share_cpu_milli=min((node.cpu_milli // count for node, count in with_cards), default=0),
        share_memory_bytes=min((node.memory_bytes // count for node, count in with_cards), default=0),
        core_memory_bytes=min((node.memory_bytes * 1000 // node.cpu_milli for node in known), default=0),
    )
