"""Reasons compared with a search over all placements: each is correct and none is missing."""

from hypothesis import given
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.core.cycle import cycle
from gpusquad.core.explain.explain import position, when, why
from gpusquad.core.explain.obstacles import Obstacle
from gpusquad.core.planning.session import CycleSession
from gpusquad.core.snapshot.dump import dump_snapshot, load_snapshot
from gpusquad.core.state.policies import PreemptionConfig, make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.job import Job, Request
from gpusquad.model.reasons import Reason, ReasonCode
from gpusquad.sim.simulator import user
from tests.core.placement_search import Search, binding_obstacles
from tests.core.states import plans
from tests.strategies import Load, cpu_only, loads, requests, shares, single_cards, whole_cards

OBSTACLE = {
    ReasonCode.NO_CARDS: Obstacle.CARDS, ReasonCode.NO_MODEL: Obstacle.CARDS, ReasonCode.NO_BLOCK: Obstacle.CARDS,
    ReasonCode.NO_SHARE: Obstacle.CARDS, ReasonCode.CARD_TAKEN: Obstacle.CARDS, ReasonCode.NO_CPU: Obstacle.CPU,
    ReasonCode.NO_MEMORY: Obstacle.MEMORY, ReasonCode.DOWN: Obstacle.DOWN, ReasonCode.WINDOW: Obstacle.WINDOW,
}  # fmt: skip
request_mixes = st.one_of(
    requests, st.sampled_from([single_cards, whole_cards, cpu_only, shares]).flatmap(lambda strategy: strategy)
)


def check_reasons(state: SchedulerState, job: Job, reasons: list[Reason]) -> None:
    """Check the reasons of a job that is still pending after a cycle."""
    until_us = state.now_us + state.queue[job.id].stay_us
    search = Search(state, until_us)
    labels = {}
    for (request, _), (low, _) in zip(job.groups, job.bounds, strict=True):
        roles = "/".join(role.name for role in job.roles if role.request == request)
        labels[f"{roles}: " if len(job.groups) > 1 else ""] = (request, low)
    all_obstacles = set()
    is_short = False
    for label, (request, low) in labels.items():
        own = [r for r in reasons if (label and label in r.message) or not label]
        obstacles = binding_obstacles(
            lambda ignored, request=request, low=low: search.max_tasks(request, ignored, low) >= low
        )
        is_short |= bool(obstacles)
        all_obstacles |= obstacles
        check_group(search, request, low, own, obstacles, alone=not label)
    codes = {r.code for r in reasons}
    if is_short:
        assert codes & {ReasonCode.DOWN} == ({ReasonCode.DOWN} if Obstacle.DOWN in all_obstacles else set())
        assert codes & {ReasonCode.WINDOW} == ({ReasonCode.WINDOW} if Obstacle.WINDOW in all_obstacles else set())
        assert ReasonCode.PLACE not in codes
        assert ReasonCode.RESERVED not in codes
    if ReasonCode.PLACE in codes:
        assert len(job.groups) > 1, "binpack places gangs of one shape wherever they fit"
    for reason in reasons:
        if reason.code is ReasonCode.RESERVED:
            check_reserved(state, job, reason)
        if reason.message.startswith("the whole gang needs"):
            assert reason.numbers["needed"] > next(v for k, v in reason.numbers.items() if k != "needed")


def check_group(search: Search, request: Request, low: int, reasons: list[Reason], obstacles: set, alone: bool) -> None:
    reported = set()
    tasks_that_fit = search.max_tasks(request, frozenset(), low)
    for reason in reasons:
        if reason.code is ReasonCode.GANG:
            assert 0 < tasks_that_fit < low
            assert reason.numbers == {"tasks": low, "room": tasks_that_fit}
            reported.add(Obstacle.CARDS)
        elif reason.code in OBSTACLE:
            assert OBSTACLE[reason.code] in obstacles, (reason, obstacles)
            reported.add(OBSTACLE[reason.code])
        check_numbers(search, request, reason)
    assert any(r.code is ReasonCode.GANG for r in reasons) == (0 < tasks_that_fit < low)
    expected = obstacles if alone else obstacles - {Obstacle.DOWN, Obstacle.WINDOW}
    assert expected <= reported


def check_numbers(search: Search, request: Request, reason: Reason) -> None:
    idle = search.idle_cards(request)
    if reason.code in (ReasonCode.NO_CARDS, ReasonCode.NO_MODEL):
        assert reason.numbers["idle"] == sum(idle.values()) < reason.numbers["needed"]
    if reason.code is ReasonCode.NO_BLOCK:
        assert reason.numbers["needed"] == request.gpus > reason.numbers["largest"]
        if "on one node" in reason.message:
            assert reason.numbers["largest"] == max(idle.values(), default=0)
    if reason.code is ReasonCode.NO_SHARE:
        assert search.max_tasks(request, frozenset(), 1) == 0
    if reason.code is ReasonCode.CARD_TAKEN and request.share is None:
        assert not any(idle.values())


def check_reserved(state: SchedulerState, job: Job, reason: Reason) -> None:
    """Without these reservations the job starts; with any one of them it does not."""

    def starts(dropped: set[str]) -> bool:
        other = load_snapshot(dump_snapshot(state))
        for name in dropped:
            del other.timeline.reservations[name]
        other.capacity_unchanged = False
        return CycleSession(other).start(job)

    assert starts(set(reason.who))
    for name in reason.who:
        assert not starts(set(reason.who) - {name})


def check_all(state: SchedulerState, now_us: int) -> None:
    """After a cycle every pending job has a reason, and the query does not change the state."""
    before = dump_snapshot(state)
    for waiting in list(state.queue):
        reasons = why(state, waiting.job.id)
        assert reasons, f"{waiting.job.id} could start but did not"
        check_reasons(state, waiting.job, reasons)
    assert dump_snapshot(state) == before


@given(loads(request=request_mixes, most=8, roles=1, windows=True, incidents=True))
def test_every_reason_is_correct_for_gangs_of_one_shape(load: Load) -> None:
    load.run("easy", on_cycle=check_all)


@given(
    loads(request=request_mixes, most=6, windows=True, incidents=True), st.sampled_from(["easy", "easy:reservations=2"])
)
def test_every_reason_is_correct_for_mixed_gangs(load: Load, plan: str) -> None:
    load.run(plan, on_cycle=check_all)


@given(loads(request=request_mixes, most=6, roles=1), st.sampled_from(["conservative", "none", "conservative:depth=1"]))
def test_every_reason_is_correct_under_other_plans(load: Load, plan: str) -> None:
    load.run(plan, on_cycle=check_all)


@given(loads(request=request_mixes, most=8, roles=1, windows=True, incidents=True), plans, st.data())
def test_job_without_reasons_starts_in_the_next_cycle(load: Load, plan: str, data: st.DataObject) -> None:
    def explain_after_an_end(state: SchedulerState, now_us: int) -> None:
        if not len(state.queue) or not len(state.runs):
            return
        other = load_snapshot(dump_snapshot(state))
        other.finish(data.draw(st.sampled_from(sorted(other.runs.by_id))))
        reasons = {w.job.id: why(other, w.job.id) for w in list(other.queue)}
        cycle(other, other.now_us)
        for job_id, found in reasons.items():
            assert (not found) == (job_id not in other.queue)
            if found:
                check_reasons(other, other.queue[job_id].job, found)

    load.run(plan, on_cycle=explain_after_an_end)


@given(
    loads(most=7, windows=True, incidents=True, elastic=True, fates=True, priorities=True, estimates="any"),
    st.sampled_from(registry.names("order")),
    plans,
    st.sampled_from(registry.names("place")),
    st.sampled_from([PreemptionConfig(), PreemptionConfig("priority", 0.0), PreemptionConfig("order", 0.001)]),
)
def test_every_pending_job_has_a_reason_under_every_policy(load: Load, order, plan, place, preemption) -> None:
    def explain_all(state: SchedulerState, now_us: int) -> None:
        before = dump_snapshot(state)
        for waiting in list(state.queue):
            reasons = why(state, waiting.job.id)
            assert reasons, f"{waiting.job.id} could start but did not"
            assert all(reason.message and reason.cure for reason in reasons)
            assert position(state, waiting.job.id) >= 1
            eta = when(state, waiting.job.id, steps=20)
            assert eta.start_us is None or eta.start_us >= now_us
            assert eta.high_us is None or (eta.start_us is not None and eta.start_us <= eta.high_us)
        assert dump_snapshot(state) == before

    policies = make_policies(order, plan, place, preemption=preemption)
    load.run(policies=policies, forecast=user, on_cycle=explain_all)
