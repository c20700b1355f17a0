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
    """All placements of equal tasks on what is free, counted from the gangs that run."""

    def __init__(self, state: SchedulerState, until_us: int) -> None:
        self.state = state
        self.nodes = state.space.fixed.cluster.nodes
        self.closed = {
            name for w in state.timeline.windows for name in w.nodes
            if w.start_us < until_us and (w.end_us is None or state.now_us < w.end_us)
        }  # fmt: skip
        self.drained = {node.id for i, node in enumerate(self.nodes) if not state.space.node_up[i]}
        self.lost = {name for i, name in enumerate(state.space.fixed.card_ids) if not state.space.card_ok[i]}

    def most(self, request: Request, lifted: frozenset[Obstacle], enough: int) -> int:
        """How many such tasks fit at once, up to ``enough``."""
        spots = self._spots(request, lifted)
        cards, cpu, memory = self._free(lifted)
        return _most(spots, 0, request, cards, cpu, memory, enough)

    def idle_cards(self, request: Request) -> dict[str, int]:
        """Idle cards of the right kind on each open node."""
        cards, _, _ = self._free(frozenset())
        counts = {}
        for node in self._open(frozenset()):
            counts[node.id] = sum(cards[c.id] == _empty(c) for c in self._usable(node, request, frozenset()))
        return counts

    def _open(self, lifted: frozenset[Obstacle]) -> list[Node]:
        shut = set() if Obstacle.DOWN in lifted else set(self.drained)
        shut |= set() if Obstacle.WINDOW in lifted else self.closed
        return [node for node in self.nodes if node.id not in shut]

    def _usable(self, node: Node, request: Request, lifted: frozenset[Obstacle]) -> list[Card]:
        return [
            c for c in node.cards
            if (Obstacle.DOWN in lifted or c.id not in self.lost)
            and (not request.gpu_models or c.model in request.gpu_models)
            and c.memory_bytes >= request.min_card_memory_bytes and request.card in (None, c.id)
        ]  # fmt: skip

    def _spots(self, request: Request, lifted: frozenset[Obstacle]) -> list[tuple[str, tuple[Card, ...]]]:
        return [
            (node.id, chosen)
            for node in self._open(lifted)
            for chosen in combinations(self._usable(node, request, lifted), request.cards)
        ]

    def _free(self, lifted: frozenset[Obstacle]) -> tuple[dict, dict, dict]:
        """What is left of each card (memory, SMs, slots) and of each node's CPU and memory."""
        ids = [c.id for node in self.nodes for c in node.cards]
        known = {c.id: c for node in self.nodes for c in node.cards}
        cards = {name: _empty(card) for name, card in known.items()}
        cpu = {node.id: node.cpu_milli for node in self.nodes}
        memory = {node.id: node.memory_bytes for node in self.nodes}
        for run in self.state.runs.by_id.values():
            for part in run.placement.parts:
                request = run.job.groups[part.request_index][0]
                for at, row in zip(part.nodes.tolist(), part.cards.tolist(), strict=True):
                    name = self.nodes[at].id
                    cpu[name] -= 0 if Obstacle.CPU in lifted else request.cpu_milli
                    memory[name] -= 0 if Obstacle.MEMORY in lifted else request.memory_bytes
                    for card in [] if Obstacle.CARDS in lifted else row:
                        cards[ids[card]] = _less(cards[ids[card]], known[ids[card]], request)
        return cards, cpu, memory


def _empty(card: Card) -> tuple[int, int, int]:
    return (card.memory_bytes, WHOLE_MILLI, MAX_SHARERS)


def _less(left: tuple[int, int, int], card: Card, request: Request) -> tuple[int, int, int]:
    share = request.share
    if share is None:
        return (0, 0, 0)
    memory = share.memory_bytes or int(Fraction(share.sm_milli, 1000) * card.memory_bytes)
    if share == Share(sm_milli=1):  # a place
        memory = min(2**30, card.memory_bytes)
    return (left[0] - memory, left[1] - share.sm_milli, left[2] - 1)


def _takes(left: tuple[int, int, int], card: Card, request: Request) -> bool:
    if request.share is None:
        return left == _empty(card)
    return min(_less(left, card, request)) >= 0


def _most(spots, first, request, cards, cpu, memory, enough) -> int:
    """Tasks are equal, so each next one goes to the same spot or to a later one."""
    best = 0
    for i in range(first, len(spots)):
        node, chosen = spots[i]
        if cpu[node] < request.cpu_milli or memory[node] < request.memory_bytes:
            continue
        if not all(_takes(cards[c.id], c, request) for c in chosen):
            continue
        left = cards | {c.id: _less(cards[c.id], c, request) for c in chosen}
        less_cpu, less_memory = dict(cpu), dict(memory)
        less_cpu[node] -= request.cpu_milli
        less_memory[node] -= request.memory_bytes
        best = max(best, 1 + (_most(spots, i, request, left, less_cpu, less_memory, enough - 1) if enough > 1 else 0))
        if best == enough:
            break
    return best


def real(fits: Callable[[frozenset[Obstacle]], bool]) -> set[Obstacle]:
    """Obstacles whose lifting turns a no into a yes, whatever else is lifted."""
    sets = [frozenset(s) for s in chain.from_iterable(combinations(Obstacle, n) for n in range(len(Obstacle) + 1))]
    known = {s: fits(s) for s in sets}
    return {one for one in Obstacle for s in sets if one not in s and not known[s] and known[s | {one}]}
