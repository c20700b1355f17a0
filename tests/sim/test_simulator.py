"""The simulator: shared cards, incidents, interference, and every job ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.core.ports import CardChanged, NodeChanged
from gpusquad.core.state.policies import PreemptionConfig, make_policies
from gpusquad.model.cluster import GIB, Card, Cluster, Node, grid
from gpusquad.model.job import Checkpoint, Job, Request, Role, Share
from gpusquad.model.prediction import PastRun
from gpusquad.server.services.prediction.predictor import LockedPredictor
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import Scenario, exact, simulate, user
from gpusquad.sim.traces import TraceJob
from tests.strategies import Load, examples, gang, loads, make_trace, starts_s

S = 1_000_000


def rows(result):
    return [(o.job.id, o.end, o.started_us, o.ended_us, [s.cards for s in o.spans]) for o in result.outcomes]


# -- sharing -------------------------------------------------------------------------------------------------------


def eight_jobs(request: Request):
    return tuple(make_trace(f"j{i}", request, 10) for i in range(8))


def test_eight_exclusive_jobs_on_two_cards_take_four_run_times():
    result = Load(grid("2x1"), eight_jobs(Request(gpus=1))).run("easy")
    assert max(o.ended_us for o in result.outcomes) == 40 * S


def test_eight_jobs_that_share_two_cards_end_sooner():
    half = Request(share=Share(GIB, 500))
    result = Load(grid("2x1"), eight_jobs(half)).run("easy", rate=lambda own, others, gpu: 0.8 ** len(others))
    assert max(o.ended_us for o in result.outcomes) == 25 * S


def test_gang_runs_at_the_rate_of_its_slowest_task():
    jobs = (
        make_trace("gang", (Role("w", 2, Request(share=Share(40 * GIB, 600))),), 10),
        make_trace("one", Request(share=Share(GIB, 400), card="n0/0"), 5),
    )  # fmt: skip
    result = Load(grid("2x1"), jobs).run("easy", rate=lambda own, others, gpu: 0.5 if others else 1.0)
    ended = {o.job.id: o.ended_us / S for o in result.outcomes}
    assert ended == {"gang": 15, "one": 10}


# -- incidents -----------------------------------------------------------------------------------------------------


def test_gang_on_a_lost_card_returns_to_its_position_in_the_queue():
    jobs = (gang("hit", 2, 10), gang("next", 1, 10, 1))
    incidents = ((4 * S, CardChanged("n0/0", False)), (20 * S, CardChanged("n0/0", True)))
    result = Load(grid("2x1"), jobs, incidents=incidents).run("easy")
    hit = result.outcomes[0]
    assert [(s.started_us, s.ended_us, s.cut) for s in hit.spans] == [(0, 4 * S, "lost"), (20 * S, 30 * S, "")]
    assert starts_s(result)["next"] == 4
    assert hit.lost_us == 4 * S


def test_checkpoint_keeps_work_when_a_card_is_lost():
    job = make_trace("j", Request(gpus=1), 10, checkpoint=Checkpoint(3 * S, 1 * S))
    incidents = ((8 * S, CardChanged("n0/0", False)), (20 * S, CardChanged("n0/0", True)))
    outcome = Load(grid("1x1"), (job,), incidents=incidents).run("easy").outcomes[0]
    assert outcome.ended_us == (20 + 1 + 4) * S


def test_gang_lost_and_restarted_at_once_ends_once():
    """The new end falls on the instant of the old one; the old entry must not count."""
    job = make_trace("j", Request(gpus=1), 10, checkpoint=Checkpoint(1 * S, 0))
    incidents = ((4 * S, CardChanged("n0/0", False)),)
    outcome = Load(grid("2x1"), (job,), incidents=incidents).run("easy").outcomes[0]
    assert (outcome.end, outcome.ended_us) == ("succeeded", 10 * S)


def test_run_on_a_drained_node_continues():
    jobs = (gang("there", 1, 10), gang("next", 1, 1, 5))
    incidents = ((2 * S, NodeChanged("n0", False)), (30 * S, NodeChanged("n0", True)))
    result = Load(grid("1x1"), jobs, incidents=incidents).run("easy")
    assert [o.ended_us for o in result.outcomes] == [10 * S, 31 * S]


@pytest.mark.parametrize("event_order", ["batch", "reference"])
def test_gang_succeeds_when_its_card_is_lost_at_the_instant_of_its_end(event_order: str):
    """In both orders of events the gang has ended or starts again."""
    jobs = (gang("j", 1, 10, estimate=20),)
    incidents = ((10 * S, CardChanged("n0/0", False)), (15 * S, CardChanged("n0/0", True)))
    result = Load(grid("1x1"), jobs, incidents=incidents).run("easy", forecast=user, event_order=event_order)
    assert result.outcomes[0].end == "succeeded"


@pytest.mark.parametrize("event_order", ["batch", "reference"])
@examples(15)
@given(load=loads(estimates="any", incidents=True, windows=True))
def test_every_job_ends_with_any_incidents(event_order: str, load: Load):
    result = load.run("easy", forecast=user, event_order=event_order)
    assert {o.end for o in result.outcomes} <= {"succeeded", "refused"}
    for o in result.outcomes:
        assert o.end == "refused" or o.ended_us >= o.job.submitted_us + o.run_us


@examples(15)
@given(load=loads(estimates="any", incidents=True), seed=st.randoms(use_true_random=False))
def test_order_of_the_jobs_does_not_matter_when_submissions_differ(load: Load, seed):
    jobs = []
    for i, trace in enumerate(load.jobs):
        jobs.append(replace(trace, job=replace(trace.job, submitted_us=i * 700)))
    shuffled = list(jobs)
    seed.shuffle(shuffled)
    in_order = Load(load.cluster, tuple(jobs), (), load.incidents).run("easy", forecast=user)
    shuffled_result = Load(load.cluster, tuple(shuffled), (), load.incidents).run("easy", forecast=user)
    assert sorted(rows(in_order)) == sorted(rows(shuffled_result))


# -- sharing with interference -------------------------------------------------------------------------------------


@examples(20)
@given(load=loads(estimates="any"), rate_beside_one=st.sampled_from([0.9, 0.6, 0.3]))
def test_every_job_ends_with_interference(load: Load, rate_beside_one: float):
    result = load.run("easy", forecast=user, rate=lambda own, others, gpu: rate_beside_one ** len(others))
    for o in result.outcomes:
        assert o.end in ("succeeded", "refused")
        assert o.end == "refused" or o.ended_us - o.started_us >= o.run_us


# -- corner cases --------------------------------------------------------------------------------------------------


def test_job_of_zero_length_starts_and_ends_at_once():
    result = Load(grid("1x1"), (gang("none", 1, 0), gang("next", 1, 5))).run("easy")
    assert [(o.started_us, o.ended_us) for o in result.outcomes] == [(0, 0), (0, 5 * S)]


def test_infeasible_job_is_refused_and_blocks_no_other_job():
    jobs = (make_trace("no", Request(gpus=3), 5), gang("yes", 1, 5))
    result = Load(grid("4x2"), jobs).run("easy")
    assert [o.end for o in result.outcomes] == ["refused", "succeeded"]
    assert result.outcomes[0].why


def test_time_limit_stops_a_job_and_frees_its_cards():
    jobs = (gang("long", 1, 100, limit_us=10 * S), gang("next", 1, 5, 1))
    result = Load(grid("1x1"), jobs).run("easy")
    assert [(o.end, o.ended_us) for o in result.outcomes] == [("timed_out", 10 * S), ("succeeded", 15 * S)]


def test_failed_job_frees_its_cards():
    bad = replace(gang("bad", 1, 5), outcome="failed")
    result = Load(grid("1x1"), (bad, gang("next", 1, 5, 1))).run("easy")
    assert [o.end for o in result.outcomes] == ["failed", "succeeded"]
    assert starts_s(result)["next"] == 5


def test_simulation_without_jobs_or_gpu_requests_works():
    cluster = Cluster((Node("n0", (), 1000, GIB), Node("n1", (Card("c"),), 0, 0)))
    assert simulate(Scenario(cluster, [], make_policies(), exact)).outcomes == []
    assert starts_s(Load(cluster, (make_trace("cpu", Request(cpu_milli=500), 1),)).run()) == {"cpu": 0}


# -- what the predictor learns -------------------------------------------------------------------------------------


def learned(jobs, preempts: bool) -> list[tuple[str, float, str]]:
    runs: list[PastRun] = []
    preemption = PreemptionConfig(by="priority" if preempts else "none", min_run_s=1)
    policies = make_policies("fifo", "easy", "binpack", preemption=preemption)
    simulate(Scenario(grid("1x2"), jobs, policies, user, learn=runs.append))
    return [(run.job.id, run.run_us / S, run.how) for run in runs]


def test_predictor_learns_preempted_runs_and_the_work_that_they_kept():
    checkpoint = Checkpoint(every_us=10 * S, restart_us=5 * S)
    jobs = (gang("low", 2, 100, priority="low", checkpoint=checkpoint), gang("high", 2, 10, 25, priority="high"))
    assert learned(jobs, preempts=True) == [("low", 25, "preempted"), ("high", 10, "succeeded"),
                                            ("low", 20 + 5 + 80, "succeeded")]  # fmt: skip


def test_predictor_learns_runs_stopped_by_their_time_limit():
    assert learned((gang("long", 2, 100, limit_us=30 * S),), preempts=False) == [("long", 30, "timed_out")]


def test_predictor_learns_runs_on_lost_cards():
    runs: list[PastRun] = []
    incidents = ((4 * S, CardChanged("n0/0", False)), (20 * S, CardChanged("n0/0", True)))
    policies = make_policies("fifo", "easy", "binpack")
    simulate(Scenario(grid("2x1"), [gang("hit", 2, 10)], policies, user, learn=runs.append, incidents=incidents))
    assert [(run.run_us / S, run.how) for run in runs] == [(4, "lost"), (10, "succeeded")]


@pytest.mark.parametrize(("predictor", "source"), [("recent", "limit"), ("combined", "prior")])
def test_time_limit_bounds_a_job_of_which_nothing_is_known_as_in_the_service(predictor: str, source: str):
    job = Job("new", (Role("task", 1, Request(gpus=1)),), limit_us=50 * S)
    found = PredictorFeed(predictor).forecast(TraceJob(job, 10 * S))
    assert found == LockedPredictor(registry.create("predictor", predictor)).predict(job).forecast
    assert found.source == source
    assert 45 * S < found.mid_us <= found.high_us <= 50 * S
