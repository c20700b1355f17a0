"""Jobs that rather wait than share at a loss: what the core promises them, tells of them, and when they insist."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.cycle import cycle
from gpusquad.core.explain.explain import why
from gpusquad.core.planning.slowdown import crowded_out
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import UNKNOWN, SchedulerState
from gpusquad.model.cluster import GIB, Card, Cluster, Node, grid
from gpusquad.model.decision import Start
from gpusquad.model.interference import Rate
from gpusquad.model.job import Job, Request, Role, Share
from gpusquad.model.placement import Placement
from gpusquad.model.reasons import ReasonCode
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.traces import TraceJob

THIRD = Request(share=Share(sm_milli=300))


def job(name: str, at_s: int = 0, request: Request = THIRD, count: int = 1) -> Job:
    return Job(name, (Role("w", count, request),), submitted_us=at_s * US_PER_S, app=name[0])


def flat(ratio: float) -> Rate:
    return lambda own, others, gpu="": ratio if others else 1.0


def runs_s(seconds: int) -> RunTimePrediction:
    return RunTimePrediction(seconds * US_PER_S, seconds * US_PER_S)


def state_with(
    rate: Rate | None, cards: int = 1, plan: str = "easy", place: str = "interference:goal=work"
) -> SchedulerState:
    return SchedulerState(grid(f"1x{cards}"), make_policies("fifo", plan, place), rate=rate)


def started(state: SchedulerState, now_s: int = 0) -> list[str]:
    return [d.job_id for d in cycle(state, now_s * US_PER_S) if isinstance(d, Start)]


# -- the rate reaches whoever needs it ------------------------------------------------------------------------------


def test_the_rate_is_asked_with_the_model_of_the_card():
    seen = set()

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        seen.add(gpu)
        return 0.9

    cluster = Cluster((Node("n", (Card("n/0", "H200", GIB),), 1000, GIB),))
    jobs = [TraceJob(job(name), US_PER_S) for name in ("a", "b", "c")]
    for place in ("interference", "binpack"):
        seen.clear()
        simulate(Scenario(cluster, jobs, make_policies(place=place), exact, rate=rate))
        assert seen == {"H200"}


def test_the_scheduler_may_believe_what_is_not_so():
    jobs = [TraceJob(job("a"), 100 * US_PER_S), TraceJob(job("b"), 100 * US_PER_S)]

    def ends(truth: float, belief: float | None) -> list[float]:
        believed = None if belief is None else flat(belief)
        scenario = Scenario(
            grid("1x1"), jobs, make_policies(place="interference"), exact, rate=flat(truth), belief=believed
        )
        return [(outcome.ended_us or 0) / US_PER_S for outcome in simulate(scenario).outcomes]

    assert ends(0.8, None) == [125, 125]
    assert ends(0.8, 0.3) == [100, 200]
    assert ends(0.4, 0.8) == [250, 250]


# -- waiting --------------------------------------------------------------------------------------------------------


def test_it_waits_with_a_promise_and_is_told_why():
    state = state_with(flat(0.4))
    state.enqueue(job("a"), runs_s(100))
    state.enqueue(job("b"), runs_s(100))
    assert started(state) == ["a"]
    assert state.timeline.reservations["b"].start_us == 100 * US_PER_S
    (reason,) = why(state, "b")
    assert reason.code is ReasonCode.INTERFERENCE
    assert "n0/0 with a: it would run at 40% of its speed alone" in reason.message
    assert reason.cure.startswith("wait for an idle card")


def test_nobody_slips_in_who_would_spoil_the_company_it_was_promised():
    """b may not share with a; c may with a, but would still be there when b comes, and they do not go together."""

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        return 1.0 if all({own.app, other.app} == {"a", "c"} for other in others) else 0.3

    state = state_with(rate)
    for each, seconds in ((job("a"), 100), (job("b"), 100), (job("c"), 150), (job("c2"), 20)):
        state.enqueue(each, runs_s(seconds))
    assert started(state) == ["a", "c2"]
    assert state.timeline.reservations["b"].start_us == 100 * US_PER_S


def test_a_promise_is_found_where_there_is_room_before_the_company_is_right():
    """At the first end there is room for it, but only beside somebody it does not go with."""
    full = Request(share=Share(sm_milli=500))
    state = state_with(lambda own, others, gpu="": 0.3 if "b" in {own.app, *(o.app for o in others)} else 0.9)
    for each, seconds in ((job("a1", request=full), 100), (job("a2", request=full), 200)):
        state.enqueue(each, runs_s(seconds))
    state.enqueue(job("b"), runs_s(10))
    assert started(state) == ["a1", "a2"]
    assert state.timeline.reservations["b"].start_us == 200 * US_PER_S


@pytest.mark.parametrize("plan", ["easy", "conservative", "none"])
def test_beside_a_service_that_never_ends_it_insists(plan: str):
    state = state_with(flat(0.4), plan=plan)
    for name in ("a", "b", "c"):
        state.enqueue(job(name), UNKNOWN)
    assert started(state) == ["a", "b", "c"]


@pytest.mark.parametrize("plan", ["easy", "conservative", "none"])
def test_not_even_then_beside_whom_it_does_not_fit(plan: str):
    state = state_with(flat(0.0), plan=plan)
    for name in ("a", "b"):
        state.enqueue(job(name), UNKNOWN)
    assert started(state) == ["a"]


def test_a_gang_that_must_share_with_itself_starts_all_the_same():
    state = state_with(flat(0.4), cards=2)
    state.enqueue(job("a", count=3), runs_s(10))
    assert state.can_ever_run(job("a", count=3))
    assert started(state) == ["a"]


def test_whoever_is_said_not_to_fit_is_noticed_on_the_cards():
    state = state_with(flat(0.0), place="binpack")
    for name in ("a", "b"):
        state.enqueue(job(name), runs_s(10))
    assert started(state) == ["a", "b"]
    placement = state.runs["b"].placement
    assert isinstance(placement, Placement)
    assert crowded_out(state, job("b"), placement)


# -- nobody starves -------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40), st.booleans()), min_size=1, max_size=14),
    st.sampled_from([0.0, 0.1, 0.4]),
    st.sampled_from(["easy", "conservative", "none", "easy:backfill=shortest"]),
)
def test_where_nobody_goes_with_anybody_every_job_still_ends(rows, ratio: float, plan: str):
    result = _run(rows, flat(ratio), plan)
    assert all(outcome.end == "succeeded" for outcome in result.outcomes)
    for outcome in result.outcomes:
        if outcome.job.has_shares:  # alone on its card, so as long as it takes alone
            assert (outcome.ended_us or 0) - (outcome.started_us or 0) == outcome.run_us


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40), st.booleans()), min_size=1, max_size=14),
    st.dictionaries(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), st.sampled_from([0.0, 0.3, 0.6, 0.9])),
)
def test_whoever_goes_with_whom_every_job_ends(rows, table):
    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        return min((table.get((own.app, other.app), 1.0) for other in others), default=1.0)

    result = _run(rows, rate, "easy")
    assert all(outcome.end == "succeeded" for outcome in result.outcomes)


def _run(rows: list[tuple[int, int, bool]], rate: Rate, plan: str) -> SimulationResult:
    jobs = []
    for index, (at_s, run_s, whole) in enumerate(rows):
        request = Request(gpus=1) if whole else THIRD
        name = f"{'abc'[index % 3]}{index}"
        jobs.append(TraceJob(job(name, at_s, request), run_s * US_PER_S))
    return simulate(
        Scenario(grid("1x2"), jobs, make_policies("fifo", plan, "interference:goal=work"), exact, rate=rate)
    )
