"""Every reason against a search over all placements, and every forecast against what then happens."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.core.accounts import Tenant
from gpusquad.core.board import Board
from gpusquad.core.cycle import cycle
from gpusquad.core.explain import copy_state, position, refusal, what_if, when, why, why_never
from gpusquad.core.lanes import Lane
from gpusquad.core.policies import Preemption, make_policies
from gpusquad.core.relief import Obstacle
from gpusquad.core.snapshot import dump_snapshot, load_snapshot
from gpusquad.core.space import MAX_SHARERS
from gpusquad.core.state import UNKNOWN, State
from gpusquad.model.cluster import GIB, Card, Cluster, Node, Window, grid
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request, Role, Share
from gpusquad.model.reasons import Code, Reason
from gpusquad.model.units import US_PER_S, WHOLE_MILLI, parse_bytes
from gpusquad.model.views import Forecast
from gpusquad.sim.simulator import exact, user
from tests.strategies import Load, cpu_only, loads, requests, shares, single_cards, whole_cards

OBSTACLE = {
    Code.NO_CARDS: Obstacle.CARDS, Code.NO_MODEL: Obstacle.CARDS, Code.NO_BLOCK: Obstacle.CARDS,
    Code.NO_SHARE: Obstacle.CARDS, Code.CARD_TAKEN: Obstacle.CARDS, Code.NO_CPU: Obstacle.CPU,
    Code.NO_MEMORY: Obstacle.MEMORY, Code.DOWN: Obstacle.DOWN, Code.WINDOW: Obstacle.WINDOW,
}  # fmt: skip


# -- a search that shares no code with the core --------------------------------------------------------------------


class Search:
    """All placements of equal tasks on what is free, counted from the gangs that run."""

    def __init__(self, state: State, until_us: int) -> None:
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
        cards = {c.id: _empty(c) for node in self.nodes for c in node.cards}
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
                        cards[ids[card]] = _less(cards[ids[card]], request)
        return cards, cpu, memory


def _empty(card: Card) -> tuple[int, int, int]:
    return (card.memory_bytes, WHOLE_MILLI, MAX_SHARERS)


def _less(left: tuple[int, int, int], request: Request) -> tuple[int, int, int]:
    if request.share is None:
        return (0, 0, 0)
    return (left[0] - request.share.memory_bytes, left[1] - request.share.sm_milli, left[2] - 1)


def _takes(left: tuple[int, int, int], card: Card, request: Request) -> bool:
    return left == _empty(card) if request.share is None else min(_less(left, request)) >= 0


def _most(spots, first, request, cards, cpu, memory, enough) -> int:
    """Tasks are equal, so each next one goes to the same spot or to a later one."""
    best = 0
    for i in range(first, len(spots)):
        node, chosen = spots[i]
        if cpu[node] < request.cpu_milli or memory[node] < request.memory_bytes:
            continue
        if not all(_takes(cards[c.id], c, request) for c in chosen):
            continue
        left = cards | {c.id: _less(cards[c.id], request) for c in chosen}
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


# -- each reason is real, and none is left out ---------------------------------------------------------------------


def check_reasons(state: State, job: Job, reasons: list[Reason]) -> None:
    """``state`` is as a cycle left it, with the job still pending."""
    until_us = state.now_us + state.queue[job.id].stay_us
    search = Search(state, until_us)
    labels = {}
    for (request, _), (low, _) in zip(job.groups, job.bounds, strict=True):
        roles = "/".join(role.name for role in job.roles if role.request == request)
        labels[f"{roles}: " if len(job.groups) > 1 else ""] = (request, low)
    outside = set()
    short = False
    for label, (request, low) in labels.items():
        mine = [r for r in reasons if (label and label in r.message) or not label]
        obstacles = real(lambda lifted, request=request, low=low: search.most(request, lifted, low) >= low)
        short |= bool(obstacles)
        outside |= obstacles
        check_group(search, request, low, mine, obstacles, alone=not label)
    codes = {r.code for r in reasons}
    if short:
        assert codes & {Code.DOWN} == ({Code.DOWN} if Obstacle.DOWN in outside else set())
        assert codes & {Code.WINDOW} == ({Code.WINDOW} if Obstacle.WINDOW in outside else set())
        assert Code.PLACE not in codes
        assert Code.RESERVED not in codes
    if Code.PLACE in codes:
        assert len(job.groups) > 1, "binpack places gangs of one shape wherever they fit"
    for reason in reasons:
        if reason.code is Code.RESERVED:
            check_reserved(state, job, reason)
        if reason.message.startswith("the whole gang needs"):
            assert reason.numbers["needed"] > next(v for k, v in reason.numbers.items() if k != "needed")


def check_group(search: Search, request: Request, low: int, reasons: list[Reason], obstacles: set, alone: bool) -> None:
    named = set()
    room = search.most(request, frozenset(), low)
    for reason in reasons:
        if reason.code is Code.GANG:
            assert 0 < room < low
            assert reason.numbers == {"tasks": low, "room": room}
            named.add(Obstacle.CARDS)
        elif reason.code in OBSTACLE:
            assert OBSTACLE[reason.code] in obstacles, (reason, obstacles)
            named.add(OBSTACLE[reason.code])
        check_numbers(search, request, reason)
    assert any(r.code is Code.GANG for r in reasons) == (0 < room < low)
    told = obstacles if alone else obstacles - {Obstacle.DOWN, Obstacle.WINDOW}
    assert told <= named


def check_numbers(search: Search, request: Request, reason: Reason) -> None:
    idle = search.idle_cards(request)
    if reason.code in (Code.NO_CARDS, Code.NO_MODEL):
        assert reason.numbers["idle"] == sum(idle.values()) < reason.numbers["needed"]
    if reason.code is Code.NO_BLOCK:
        assert reason.numbers["needed"] == request.gpus > reason.numbers["largest"]
        if "on one node" in reason.message:
            assert reason.numbers["largest"] == max(idle.values(), default=0)
    if reason.code is Code.NO_SHARE:
        assert search.most(request, frozenset(), 1) == 0
    if reason.code is Code.CARD_TAKEN and request.share is None:
        assert not any(idle.values())


def check_reserved(state: State, job: Job, reason: Reason) -> None:
    """Without these promises it starts; with any of them it does not."""

    def starts(dropped: set[str]) -> bool:
        other = load_snapshot(dump_snapshot(state))
        for name in dropped:
            del other.timeline.promises[name]
        other.settled = False
        return Board(other).start(job)

    assert starts(set(reason.who))
    for name in reason.who:
        assert not starts(set(reason.who) - {name})


def check_all(state: State, now_us: int) -> None:
    """After a cycle everybody who still waits has a reason, and asking changes nothing."""
    before = dump_snapshot(state)
    for waiting in list(state.queue):
        reasons = why(state, waiting.job.id)
        assert reasons, f"{waiting.job.id} could start, and did not"
        check_reasons(state, waiting.job, reasons)
    assert dump_snapshot(state) == before


PATIENT = "easy:backfill=merit,patience_s=0.002,wide=0.5,aged_s=0.005"
plans = st.sampled_from(["easy", "easy:backfill=shortest", "conservative", "none", PATIENT])
mixes = st.one_of(requests, st.sampled_from([single_cards, whole_cards, cpu_only, shares]).flatmap(lambda ask: ask))


@given(loads(ask=mixes, most=8, roles=1, windows=True, incidents=True))
def test_every_reason_is_real_for_gangs_of_one_shape(load: Load) -> None:
    load.run("easy", on_cycle=check_all)


@given(loads(ask=mixes, most=6, windows=True, incidents=True), st.sampled_from(["easy", "easy:reservations=2"]))
def test_every_reason_is_real_for_mixed_gangs(load: Load, plan: str) -> None:
    load.run(plan, on_cycle=check_all)


@given(loads(ask=mixes, most=6, roles=1), st.sampled_from(["conservative", "none", "conservative:depth=1"]))
def test_every_reason_is_real_under_other_plans(load: Load, plan: str) -> None:
    load.run(plan, on_cycle=check_all)


@given(loads(ask=mixes, most=8, roles=1, windows=True, incidents=True), plans, st.data())
def test_an_empty_list_means_that_the_cycle_starts_it(load: Load, plan: str, data: st.DataObject) -> None:
    def ask_after_an_end(state: State, now_us: int) -> None:
        if not len(state.queue) or not len(state.runs):
            return
        other = load_snapshot(dump_snapshot(state))
        other.finish(data.draw(st.sampled_from(sorted(other.runs.by_id))))
        reasons = {w.job.id: why(other, w.job.id) for w in list(other.queue)}
        cycle(other, other.now_us)
        for job_id, told in reasons.items():
            assert (not told) == (job_id not in other.queue)
            if told:
                check_reasons(other, other.queue[job_id].job, told)

    load.run(plan, on_cycle=ask_after_an_end)


# -- by hand -------------------------------------------------------------------------------------------------------

HOUR = 3600 * US_PER_S


def state_of(cluster: Cluster, plan: str = "easy", windows: tuple[Window, ...] = (), **rest) -> State:
    return State(cluster, make_policies("fifo", plan, "binpack", **rest), windows)


def job(name: str, request: Request, count: int = 1, **rest) -> Job:
    return Job(name, (Role("worker", count, request),), **rest)


def submit(state: State, *jobs: Job, hours: float = 1) -> None:
    for each in jobs:
        state.enqueue(each, Forecast(round(hours * HOUR), round(hours * HOUR)))
    cycle(state, state.now_us)


def codes(reasons: list[Reason]) -> list[Code]:
    return [r.code for r in reasons]


def test_no_block_names_the_largest() -> None:
    state = state_of(grid("2x8"))
    submit(state, job("a", Request(gpus=3)), job("b", Request(gpus=6)), job("big", Request(gpus=8)))
    (reason,) = [r for r in why(state, "big") if r.code is Code.NO_BLOCK]
    assert "needs 8 on one node, largest free block 5" in str(reason)


def test_gang_tells_how_many_tasks_have_room() -> None:
    state = state_of(grid("2x4"))
    submit(state, job("a", Request(gpus=1)), job("b", Request(gpus=2), 4))
    reasons = why(state, "b")
    assert Code.GANG in codes(reasons)
    assert "room for 3 of 4 tasks" in reasons[0].message


def test_cpu_where_the_cards_are() -> None:
    nodes = (Node("full", (Card("c0"),), 4000, GIB), Node("bare", (), 64_000, GIB))
    state = state_of(Cluster(nodes))
    submit(state, job("a", Request(cpu_milli=3000)), job("b", Request(gpus=1, cpu_milli=2000)))
    taken = [state.space.fixed.node_ids[n] for n in state.runs["a"].placement.all_nodes()]
    assert taken == ["full"] or "b" in state.runs
    if "b" in state.queue:
        told = why(state, "b")
        assert Code.NO_CPU in codes(told)
        assert "the nodes with cards for it have at most 1 cores free on one" in str(told[-1])


def test_named_card_and_who_has_it() -> None:
    state = state_of(grid("1x2"))
    submit(state, job("a", Request(gpus=1, card="n0/1")), job("b", Request(gpus=1, card="n0/1")))
    (reason,) = why(state, "b")
    assert (reason.code, reason.who) == (Code.CARD_TAKEN, ("a",))
    assert "1 others are idle" in reason.cure


def test_share_says_what_is_free() -> None:
    state = state_of(Cluster((Node("n", (Card("c", memory_bytes=12 * GIB),), 1000, GIB),)))
    submit(state, job("a", Request(share=Share(8 * GIB, 500))), job("b", Request(share=Share(6 * GIB, 200))))
    (reason,) = why(state, "b")
    assert reason.code is Code.NO_SHARE
    assert reason.numbers["most_bytes"] == 4 * GIB


def test_reservation_names_whom_it_would_delay() -> None:
    state = state_of(grid("1x4"))
    submit(state, job("a", Request(gpus=2)))
    submit(state, job("head", Request(gpus=4)))
    submit(state, job("long", Request(gpus=2)), hours=3)
    (reason,) = why(state, "long")
    assert (reason.code, reason.who) == (Code.RESERVED, ("head",))
    assert reason.cure == "a run of at most 1h00m may slip in before"


def test_behind_under_the_plan_that_lets_nobody_pass() -> None:
    state = state_of(grid("1x4"), "none")
    submit(state, job("a", Request(gpus=2)), job("head", Request(gpus=4)), job("small", Request(gpus=1)))
    assert (Code.BEHIND, ("head",)) in [(r.code, r.who) for r in why(state, "small")]
    assert position(state, "small") == 2
    assert Code.BEHIND not in codes(why(state, "head"))


def test_limits_of_tenant_and_lane_are_both_named() -> None:
    state = state_of(grid("1x8"), tenants=(Tenant("red", limit_gpus=3),), lanes=(Lane("all", limit_ratio=0.5),))
    submit(state, job("a", Request(gpus=2), tenant="red"), job("b", Request(gpus=3), tenant="red"))
    assert codes(why(state, "b")) == [Code.TENANT_LIMIT, Code.LANE_LIMIT]


def test_window_and_drained_node() -> None:
    state = state_of(grid("2x1"), windows=(Window("w", ("n0",), HOUR // 2, 2 * HOUR),))
    submit(state, job("a", Request(gpus=1), 2))
    (reason,) = [r for r in why(state, "a") if r.code is Code.WINDOW]
    assert reason.who == ("n0",)
    assert "fits before it" in reason.cure
    state = state_of(grid("2x1"))
    state.space.set_node_up(1, False)
    submit(state, job("a", Request(gpus=1), 2))
    assert Code.DOWN in codes(why(state, "a"))


def test_only_pending_jobs_are_asked_about() -> None:
    state = state_of(grid("1x1"))
    submit(state, job("a", Request(gpus=1)))
    for ask in (why, position, when):
        with pytest.raises(Invalid):
            ask(state, "a")
        with pytest.raises(Invalid):
            ask(state, "nobody")


# -- never ---------------------------------------------------------------------------------------------------------

TWO_KINDS = Cluster((
    Node("n0", tuple(Card(f"a{i}", "A100", 40 * GIB) for i in range(8)), 64_000, 256 * GIB),
    Node("n1", tuple(Card(f"v{i}", "V100", 16 * GIB) for i in range(4)), 128_000, 64 * GIB),
))  # fmt: skip


@pytest.mark.parametrize(("request_", "count", "words"), [
    (Request(gpus=16), 1, "asks for 16 GPUs on one node; the largest node has 8"),
    (Request(gpus=8, gpu_models=("V100",)), 1, "the largest node with V100 has 4"),
    (Request(gpus=1, gpu_models=("H100",)), 1, "asks for GPU model H100; there are A100, V100"),
    (Request(gpus=1, card="x"), 1, "there is no card 'x'"),
    (Request(share=Share(80 * GIB)), 1, "asks for a card with 85.9 GB; the largest has 42.9 GB"),
    (Request(gpus=1, min_card_memory_bytes=20 * GIB, gpu_models=("V100",)), 1, "the largest with V100 has 17.2 GB"),
    (Request(gpus=1), 13, "a gang of 13 tasks, but room for 12 at most"),
    (Request(cpu_milli=200_000), 1, "asks for 200 cores a task; the largest node has 128 cores"),
    (Request(memory_bytes=512 * GIB), 1, "the largest node has 274.9 GB of memory"),
    (Request(gpus=8, cpu_milli=100_000), 1, "no node has 8 GPUs, 100 cores together"),
])  # fmt: skip
def test_never_names_the_limit(request_: Request, count: int, words: str) -> None:
    state = state_of(TWO_KINDS)
    asked = job("j", request_, count)
    assert not state.can_ever_run(asked)
    reason = why_never(state, asked)
    assert words in reason.message
    assert reason.cure
    assert refusal(state, asked) == reason


def test_the_cure_of_too_much_memory_can_be_typed() -> None:
    """80 GiB is 85.9 GB as people read it, and a little less in truth."""
    state = state_of(Cluster((Node("n0", (Card("a", "H100", 80 * GIB),), 64_000, 256 * GIB),)))
    told = refusal(state, job("j", Request(share=Share(85_900_000_000))))
    assert told is not None
    assert "share.memory: asks for a card with 85900000000 bytes; the largest has 85899345920 bytes" in told.message
    assert told.cure == "ask for at most 85.8 GB"
    asked = parse_bytes(told.cure.removeprefix("ask for at most "), "share.memory")
    assert refusal(state, job("k", Request(share=Share(asked)))) is None
    told = refusal(state, job("l", Request(gpus=1, min_card_memory_bytes=90 * GIB)))
    assert told is not None
    assert told.message.startswith("gpu_memory: asks for a card with 96.6 GB; the largest has 85.9 GB")


VIRTUAL = Cluster((Node("parts", tuple(Card(f"g.{i}of4", "A100", 10 * GIB) for i in range(1, 5)), 64_000, 256 * GIB),))


def test_a_task_never_has_several_virtual_cards() -> None:
    state, asked = state_of(VIRTUAL), job("j", Request(gpus=2))
    told = refusal(state, asked)
    assert told is not None
    assert "gpus: asks for 2 virtual cards a task" in told.message
    assert "gpus: 1" in told.cure
    assert why_never(state, asked) == told
    assert refusal(state, job("k", Request(gpus=1), 4)) is None


def test_a_task_whose_programs_have_one_card_each_takes_virtual_ones() -> None:
    state, asked = state_of(VIRTUAL), job("j", Request(gpus=2, gpus_together=1))
    assert refusal(state, asked) is None
    submit(state, asked)
    assert len(state.runs["j"].placement.all_cards()) == 2
    told = refusal(state, job("k", Request(gpus=3, gpus_together=2)))
    assert told is not None
    assert "asks for 2 virtual cards a container" in told.message


def test_who_asks_for_one_card_is_not_told_of_virtual_ones() -> None:
    cluster = Cluster((*VIRTUAL.nodes, Node("whole", (Card("h0", "H100", 80 * GIB),), 64_000, 256 * GIB)))
    told = refusal(state_of(cluster), job("j", Request(gpus=1, card="h0", gpu_models=("A100",))))
    assert told is not None
    assert "virtual" not in told.message


def test_beside_virtual_cards_whole_ones_serve_several_at_once() -> None:
    cluster = Cluster((*VIRTUAL.nodes, *TWO_KINDS.nodes))
    state = state_of(cluster)
    submit(state, job("wide", Request(gpus=4, gpu_models=("A100",))), job("wider", Request(gpus=4)))
    names = state.space.fixed.card_ids
    held = [names[card] for run in state.runs.by_id.values() for card in run.placement.all_cards()]
    assert len(held) == 8
    assert not [card for card in held if "of4" in card]
    told = refusal(state, job("widest", Request(gpus=16)))
    assert told is not None
    assert "the largest node has 8" in told.message


def test_never_by_rules() -> None:
    state = state_of(grid("1x8"), tenants=(Tenant("red", limit_gpus=3),), lanes=(Lane("all", limit_ratio=0.5),))
    told = refusal(state, job("a", Request(gpus=4), tenant="red"))
    assert told is not None
    assert told.code is Code.TENANT_LIMIT
    told = refusal(state, job("b", Request(gpus=5)))
    assert told is not None
    assert told.code is Code.LANE_LIMIT
    told = refusal(state, job("c", Request(gpus=1), lane="fast"))
    assert told is not None
    assert "there is no lane 'fast'" in told.message
    assert refusal(state, job("d", Request(gpus=1))) is None


@given(loads(most=4, roles=2))
def test_never_and_refusal_agree_with_what_can_run(load: Load) -> None:
    state = State(load.cluster, make_policies())
    for trace in load.jobs:
        told = refusal(state, trace.job)
        assert (told is None) == state.can_ever_run(trace.job)
        if told is not None:
            assert told.cure


# -- when and what if ----------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(loads(most=8, roles=2, windows=True), plans)
def test_with_exact_times_and_no_more_arrivals_when_is_what_happens(load: Load, plan: str) -> None:
    last_us = max(t.job.submitted_us for t in load.jobs)
    told: dict[str, int | None] = {}

    def ask(state: State, now_us: int) -> None:
        if now_us >= last_us and not told:
            before = dump_snapshot(state)
            for waiting in list(state.queue):
                eta = when(state, waiting.job.id)
                assert eta.high_us == eta.start_us
                told[waiting.job.id] = eta.start_us
            assert dump_snapshot(state) == before

    result = load.run(plan, on_cycle=ask)
    started = {o.job.id: o.started_us for o in result.outcomes}
    assert told == {job_id: started[job_id] for job_id in told}


@settings(max_examples=60)
@given(loads(most=7, roles=2), plans)
def test_what_if_is_what_happens(load: Load, plan: str) -> None:
    """The last job is held back, asked about, and then submitted in a second run."""
    *first, extra = sorted(load.jobs, key=lambda t: t.job.submitted_us)
    last_us = extra.job.submitted_us
    told = []

    def ask(state: State, now_us: int) -> None:
        if now_us == last_us and not told:
            before = dump_snapshot(state)
            told.append((what_if(state, extra.job, exact(extra)), [w.job.id for w in state.queue]))
            assert dump_snapshot(state) == before

    if not any(t.job.submitted_us == last_us for t in first):
        return
    without = replace(load, jobs=tuple(first)).run(plan, on_cycle=ask)
    answer, pending = told[0]
    outcomes = replace(load, jobs=(*first, extra)).run(plan, event_order="batch").outcomes
    then = {o.job.id: o.started_us for o in outcomes}
    if answer.refused is not None:
        assert next(o for o in outcomes if o.job.id == extra.job.id).end == "refused"
        return
    if answer.starts_now:
        assert answer.placement is not None
        assert answer.eta.start_us == last_us
    if any(t.job.id not in pending and then[t.job.id] != o for t, o in _starts(first, without)):
        return  # submitted together with the others it changed what they got; asked later it cannot
    assert answer.eta.start_us == then[extra.job.id]
    delays = {t.job.id: then[t.job.id] - o for t, o in _starts(first, without) if o is not None}
    assert dict(answer.delayed) == {job_id: by for job_id, by in delays.items() if by > 0}


def _starts(traces, result):
    started = {o.job.id: o.started_us for o in result.outcomes}
    return [(t, started[t.job.id]) for t in traces]


def test_when_gives_a_range_and_the_promise() -> None:
    state = state_of(grid("1x1"))
    state.enqueue(job("a", Request(gpus=1)), Forecast(HOUR, 2 * HOUR))
    state.enqueue(job("b", Request(gpus=1)), Forecast(HOUR, 3 * HOUR))
    state.enqueue(job("c", Request(gpus=1)), Forecast(HOUR, HOUR))
    cycle(state, 0)
    eta = when(state, "b")
    assert (eta.start_us, eta.high_us, eta.promised_us) == (HOUR, 2 * HOUR, 2 * HOUR)
    eta = when(state, "c")
    assert (eta.start_us, eta.high_us, eta.promised_us) == (2 * HOUR, 5 * HOUR, None)


def test_when_is_not_known_behind_a_job_without_estimate() -> None:
    state = state_of(grid("1x1"))
    state.enqueue(job("a", Request(gpus=1)), UNKNOWN)
    state.enqueue(job("b", Request(gpus=1)), Forecast(HOUR, HOUR))
    cycle(state, 0)
    eta = when(state, "b")
    assert (eta.start_us, eta.high_us, eta.promised_us) == (None, None, None)


def test_what_if_tells_who_is_delayed_and_who_must_go() -> None:
    policies = make_policies("urgent", "easy", "binpack", preemption=Preemption("priority", 0.0))
    state = State(grid("1x2"), policies)
    submit(state, job("a", Request(gpus=2)), job("b", Request(gpus=2)))
    state.now_us = 1  # nobody is preempted at the instant of its start
    answer = what_if(state, job("now", Request(gpus=2), priority="urgent"), Forecast(HOUR, HOUR))
    assert not answer.starts_now
    assert answer.preempted == ("a",)
    assert answer.eta.start_us == 1
    assert dict(answer.delayed) == {"b": HOUR + 1}
    with pytest.raises(Invalid):
        what_if(state, job("a", Request(gpus=1)), Forecast(HOUR, HOUR))


def test_a_copy_is_equal_and_apart() -> None:
    state = state_of(grid("2x2"))
    submit(state, job("a", Request(gpus=2)), job("b", Request(gpus=2), 2), job("c", Request(share=Share(GIB, 100))))
    before = json.dumps(dump_snapshot(state))
    other = copy_state(state)
    assert json.dumps(dump_snapshot(other)) == before
    other.finish("a")
    submit(other, job("d", Request(gpus=1)))
    cycle(other, HOUR)
    assert json.dumps(dump_snapshot(state)) == before


# -- under everything that can be chosen ---------------------------------------------------------------------------


@given(
    loads(most=7, windows=True, incidents=True, elastic=True, fates=True, priorities=True, estimates="any"),
    st.sampled_from(registry.names("order")),
    plans,
    st.sampled_from(registry.names("place")),
    st.sampled_from([Preemption(), Preemption("priority", 0.0), Preemption("order", 0.001)]),
)
def test_everybody_has_a_reason_under_every_policy(load: Load, order, plan, place, preemption) -> None:
    def ask(state: State, now_us: int) -> None:
        before = dump_snapshot(state)
        for waiting in list(state.queue):
            reasons = why(state, waiting.job.id)
            assert reasons, f"{waiting.job.id} could start, and did not"
            assert all(reason.message and reason.cure for reason in reasons)
            assert position(state, waiting.job.id) >= 1
            eta = when(state, waiting.job.id, steps=20)
            assert eta.start_us is None or eta.start_us >= now_us
            assert eta.high_us is None or (eta.start_us is not None and eta.start_us <= eta.high_us)
        assert dump_snapshot(state) == before

    policies = make_policies(order, plan, place, preemption=preemption)
    load.run(policies=policies, forecast=user, on_cycle=ask)
