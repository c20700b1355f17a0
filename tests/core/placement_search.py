"""A search over all placements that shares no code with the core."""

from collections.abc import Callable
from fractions import Fraction
from itertools import chain, combinations

from gpusquad.core.capacity.capacity import MAX_SHARERS
from gpusquad.core.explain.obstacles import Obstacle
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import Card, Node
from gpusquad.model.job import Request, Share
from gpusquad.model.units import WHOLE_MILLI


class Search:
    """All placements of equal tasks on the free capacity, computed from the running gangs."""

    def __init__(self, state: SchedulerState, until_us: int) -> None:
        self.state = state
        self.nodes = state.space.fixed.cluster.nodes
        self.closed = {
            name for w in state.timeline.windows for name in w.nodes
            if w.start_us < until_us and (w.end_us is None or state.now_us < w.end_us)
        }  # fmt: skip
        self.drained = {node.id for i, node in enumerate(self.nodes) if not state.space.node_up[i]}
        self.faulty = {name for i, name in enumerate(state.space.fixed.card_ids) if not state.space.card_ok[i]}

    def max_tasks(self, request: Request, ignored: frozenset[Obstacle], limit: int) -> int:
        """Number of such tasks that fit together, at most ``limit``."""
        choices = self._choices(request, ignored)
        cards, cpu, memory = self._free(ignored)
        return _max_tasks(choices, 0, request, cards, cpu, memory, limit)

    def idle_cards(self, request: Request) -> dict[str, int]:
        """Number of idle cards that match the request, for each open node."""
        cards, _, _ = self._free(frozenset())
        counts = {}
        for node in self._open_nodes(frozenset()):
            counts[node.id] = sum(cards[c.id] == _all_free(c) for c in self._usable_cards(node, request, frozenset()))
        return counts

    def _open_nodes(self, ignored: frozenset[Obstacle]) -> list[Node]:
        excluded = set() if Obstacle.DOWN in ignored else set(self.drained)
        excluded |= set() if Obstacle.WINDOW in ignored else self.closed
        return [node for node in self.nodes if node.id not in excluded]

    def _usable_cards(self, node: Node, request: Request, ignored: frozenset[Obstacle]) -> list[Card]:
        return [
            c for c in node.cards
            if (Obstacle.DOWN in ignored or c.id not in self.faulty)
            and (not request.gpu_models or c.model in request.gpu_models)
            and c.memory_bytes >= request.min_card_memory_bytes and request.card in (None, c.id)
        ]  # fmt: skip

    def _choices(self, request: Request, ignored: frozenset[Obstacle]) -> list[tuple[str, tuple[Card, ...]]]:
        return [
            (node.id, chosen)
            for node in self._open_nodes(ignored)
            for chosen in combinations(self._usable_cards(node, request, ignored), request.cards)
        ]

    def _free(self, ignored: frozenset[Obstacle]) -> tuple[dict, dict, dict]:
        """Free memory, SMs and client slots of each card, and free CPU and memory of each node."""
        ids = [c.id for node in self.nodes for c in node.cards]
        by_id = {c.id: c for node in self.nodes for c in node.cards}
        cards = {name: _all_free(card) for name, card in by_id.items()}
        cpu = {node.id: node.cpu_milli for node in self.nodes}
        memory = {node.id: node.memory_bytes for node in self.nodes}
        for run in self.state.runs.by_id.values():
            for part in run.placement.parts:
                request = run.job.groups[part.request_index][0]
                for node_index, card_row in zip(part.nodes.tolist(), part.cards.tolist(), strict=True):
                    name = self.nodes[node_index].id
                    cpu[name] -= 0 if Obstacle.CPU in ignored else request.cpu_milli
                    memory[name] -= 0 if Obstacle.MEMORY in ignored else request.memory_bytes
                    for card in [] if Obstacle.CARDS in ignored else card_row:
                        cards[ids[card]] = _free_after(cards[ids[card]], by_id[ids[card]], request)
        return cards, cpu, memory


def _all_free(card: Card) -> tuple[int, int, int]:
    return (card.memory_bytes, WHOLE_MILLI, MAX_SHARERS)


def _free_after(left: tuple[int, int, int], card: Card, request: Request) -> tuple[int, int, int]:
    share = request.share
    if share is None:
        return (0, 0, 0)
    memory = share.memory_bytes or int(Fraction(share.sm_milli, 1000) * card.memory_bytes)
    if share == Share(sm_milli=1):  # device slot only
        memory = min(2**30, card.memory_bytes)
    return (left[0] - memory, left[1] - share.sm_milli, left[2] - 1)


def _fits(left: tuple[int, int, int], card: Card, request: Request) -> bool:
    if request.share is None:
        return left == _all_free(card)
    return min(_free_after(left, card, request)) >= 0


def _max_tasks(choices, first, request, cards, cpu, memory, limit) -> int:
    """Tasks are equal, so each further task uses the same choice or a later one."""
    best = 0
    for i in range(first, len(choices)):
        node, chosen = choices[i]
        if cpu[node] < request.cpu_milli or memory[node] < request.memory_bytes:
            continue
        if not all(_fits(cards[c.id], c, request) for c in chosen):
            continue
        left = cards | {c.id: _free_after(cards[c.id], c, request) for c in chosen}
        less_cpu, less_memory = dict(cpu), dict(memory)
        less_cpu[node] -= request.cpu_milli
        less_memory[node] -= request.memory_bytes
        best = max(
            best, 1 + (_max_tasks(choices, i, request, left, less_cpu, less_memory, limit - 1) if limit > 1 else 0)
        )
        if best == limit:
            break
    return best


def binding_obstacles(does_fit: Callable[[frozenset[Obstacle]], bool]) -> set[Obstacle]:
    """Obstacles whose removal makes the request fit, for some set of other ignored obstacles."""
    sets = [
        frozenset(subset) for subset in chain.from_iterable(combinations(Obstacle, n) for n in range(len(Obstacle) + 1))
    ]
    result_by_set = {subset: does_fit(subset) for subset in sets}
    return {
        obstacle
        for obstacle in Obstacle
        for subset in sets
        if obstacle not in subset and not result_by_set[subset] and result_by_set[subset | {obstacle}]
    }
