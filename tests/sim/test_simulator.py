"""Virtual time: what happens when, incidents, and that nobody is lost on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.ports import CardChanged, NodeChanged
from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import GIB, Card, Cluster, Node, grid
from gpusquad.model.job import Checkpoint, Request, Role, Share
from gpusquad.sim.simulator import Scenario, exact, simulate, user
from tests.strategies import Load, asks, examples, gang, loads, starts_s

S = 1_000_000


def rows(result):
    return [(o.job.id, o.end, o.started_us, o.ended_us, [s.cards for s in o.spans]) for o in result.outcomes]


# -- sharing -------------------------------------------------------------------------------------------------------


def eight(request: Request):
    return tuple(asks(f"j{i}", request, 10) for i in range(8))


def test_eight_exclusive_jobs_on_two_cards_take_four_times_as_long_as_one():
    result = Load(grid("2x1"), eight(Request(gpus=1))).run("easy")
    assert max(o.ended_us for o in result.outcomes) == 40 * S


def test_eight_jobs_that_share_two_cards_take_less():
    half = Request(share=Share(GIB, 500))
    result = Load(grid("2x1"), eight(half)).run("easy", rate=lambda own, others, gpu: 0.8 ** len(others))
    assert max(o.ended_us for o in result.outcomes) == 25 * S


def test_a_gang_runs_at_the_rate_of_its_slowest_task():
    jobs = (
        asks("gang", (Role("w", 2, Request(share=Share(40 * GIB, 600))),), 10),
        asks("one", Request(share=Share(GIB, 400), card="n0/0"), 5),
    )  # fmt: skip
    result = Load(grid("2x1"), jobs).run("easy", rate=lambda own, others, gpu: 0.5 if others else 1.0)
    ended = {o.job.id: o.ended_us / S for o in result.outcomes}
    assert ended == {"gang": 15, "one": 10}


# -- incidents -----------------------------------------------------------------------------------------------------


def test_a_lost_card_sends_its_gang_back_to_its_place_in_the_queue():
    jobs = (gang("hit", 2, 10), gang("next", 1, 10, 1))
    incidents = ((4 * S, CardChanged("n0/0", False)), (20 * S, CardChanged("n0/0", True)))
    result = Load(grid("2x1"), jobs, incidents=incidents).run("easy")
    hit = result.outcomes[0]
    assert [(s.started_us, s.ended_us, s.cut) for s in hit.spans] == [(0, 4 * S, "lost"), (20 * S, 30 * S, "")]
    assert starts_s(result)["next"] == 4
    assert hit.lost_us == 4 * S


def test_a_checkpoint_keeps_work_through_the_loss_of_a_card():
    job = asks("j", Request(gpus=1), 10, checkpoint=Checkpoint(3 * S, 1 * S))
    incidents = ((8 * S, CardChanged("n0/0", False)), (20 * S, CardChanged("n0/0", True)))
    outcome = Load(grid("1x1"), (job,), incidents=incidents).run("easy").outcomes[0]
    assert outcome.ended_us == (20 + 1 + 4) * S


def test_a_gang_lost_and_started_again_at_once_ends_once():
    """Its new end falls on the instant of the old one: the old entry must not count."""
    job = asks("j", Request(gpus=1), 10, checkpoint=Checkpoint(1 * S, 0))
    incidents = ((4 * S, CardChanged("n0/0", False)),)
    outcome = Load(grid("2x1"), (job,), incidents=incidents).run("easy").outcomes[0]
    assert (outcome.end, outcome.ended_us) == ("succeeded", 10 * S)


def test_what_runs_on_a_drained_node_runs_on():
    jobs = (gang("there", 1, 10), gang("next", 1, 1, 5))
    incidents = ((2 * S, NodeChanged("n0", False)), (30 * S, NodeChanged("n0", True)))
    result = Load(grid("1x1"), jobs, incidents=incidents).run("easy")
    assert [o.ended_us for o in result.outcomes] == [10 * S, 31 * S]


@pytest.mark.parametrize("event_order", ["batch", "reference"])
def test_a_card_lost_at_the_instant_its_gang_ends(event_order: str):
    """In both orders of events the gang has ended, or starts again: it is not lost."""
    jobs = (gang("j", 1, 10, estimate=20),)
    incidents = ((10 * S, CardChanged("n0/0", False)), (15 * S, CardChanged("n0/0", True)))
    result = Load(grid("1x1"), jobs, incidents=incidents).run("easy", forecast=user, event_order=event_order)
    assert result.outcomes[0].end == "succeeded"


@pytest.mark.parametrize("event_order", ["batch", "reference"])
@examples(15)
@given(load=loads(estimates="any", incidents=True, windows=True))
def test_everybody_ends_whatever_happens_to_cards_and_nodes(event_order: str, load: Load):
    result = load.run("easy", forecast=user, event_order=event_order)
    assert {o.end for o in result.outcomes} <= {"succeeded", "refused"}
    for o in result.outcomes:
        assert o.end == "refused" or o.ended_us >= o.job.submitted_us + o.run_us


@examples(15)
@given(load=loads(estimates="any", incidents=True), seed=st.randoms(use_true_random=False))
def test_the_order_of_the_file_does_not_matter_when_no_two_come_at_once(load: Load, seed):
    jobs = []
    for i, trace in enumerate(load.jobs):
        jobs.append(replace(trace, job=replace(trace.job, submitted_us=i * 700)))
    mixed = list(jobs)
    seed.shuffle(mixed)
    one = Load(load.cluster, tuple(jobs), (), load.incidents).run("easy", forecast=user)
    other = Load(load.cluster, tuple(mixed), (), load.incidents).run("easy", forecast=user)
    assert sorted(rows(one)) == sorted(rows(other))


# -- sharing with interference -------------------------------------------------------------------------------------


@examples(20)
@given(load=loads(estimates="any"), slow=st.sampled_from([0.9, 0.6, 0.3]))
def test_neighbours_slow_each_other_and_everybody_ends(load: Load, slow: float):
    result = load.run("easy", forecast=user, rate=lambda own, others, gpu: slow ** len(others))
    for o in result.outcomes:
        assert o.end in ("succeeded", "refused")
        assert o.end == "refused" or o.ended_us - o.started_us >= o.run_us


# -- small things --------------------------------------------------------------------------------------------------


def test_a_job_that_takes_no_time_starts_and_ends_at_once():
    result = Load(grid("1x1"), (gang("none", 1, 0), gang("next", 1, 5))).run("easy")
    assert [(o.started_us, o.ended_us) for o in result.outcomes] == [(0, 0), (0, 5 * S)]


def test_what_can_never_fit_is_refused_and_stands_in_nobodys_way():
    jobs = (asks("no", Request(gpus=3), 5), gang("yes", 1, 5))
    result = Load(grid("4x2"), jobs).run("easy")
    assert [o.end for o in result.outcomes] == ["refused", "succeeded"]
    assert result.outcomes[0].why


def test_a_time_limit_ends_a_job_and_frees_its_cards():
    jobs = (gang("long", 1, 100, limit_us=10 * S), gang("next", 1, 5, 1))
    result = Load(grid("1x1"), jobs).run("easy")
    assert [(o.end, o.ended_us) for o in result.outcomes] == [("timed_out", 10 * S), ("succeeded", 15 * S)]


def test_a_failed_job_frees_its_cards():
    bad = replace(gang("bad", 1, 5), outcome="failed")
    result = Load(grid("1x1"), (bad, gang("next", 1, 5, 1))).run("easy")
    assert [o.end for o in result.outcomes] == ["failed", "succeeded"]
    assert starts_s(result)["next"] == 5


def test_no_cards_and_no_jobs():
    cluster = Cluster((Node("n0", (), 1000, GIB), Node("n1", (Card("c"),), 0, 0)))
    assert simulate(Scenario(cluster, [], make_policies(), exact)).outcomes == []
    assert starts_s(Load(cluster, (asks("cpu", Request(cpu_milli=500), 1),)).run()) == {"cpu": 0}
