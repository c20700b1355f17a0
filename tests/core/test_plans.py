"""Promises: who gets one, who may slip in, and that nobody is moved later without being told why."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.driver import Driver
from gpusquad.core.ports import CardChanged, GangEnded, JobCancelled, JobSubmitted, NodeChanged
from gpusquad.core.state.accounts import TenantQuota
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import UNKNOWN, SchedulerState
from gpusquad.model.cluster import GIB, Card, Cluster, MaintenanceWindow, Node, grid
from gpusquad.model.job import Checkpoint, Request, Role, Share
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.simulator import user
from tests.audit import audit
from tests.strategies import (
    Load,
    asks,
    examples,
    gang,
    loads,
    plain_clusters,
    requests,
    single_cards,
    starts_s,
)

S = 1_000_000
PROMISING = ["easy", "easy:reservations=3", "conservative"]


def never_late(result) -> None:
    """Nobody starts after the first start promised."""
    late = {o.job.id: (o.promised_us, o.started_us) for o in result.outcomes
            if o.promised_us is not None and (o.started_us is None or o.started_us > o.promised_us)}  # fmt: skip
    assert not late, f"promised and started: {late}"


# -- the textbook cases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PROMISING)
def test_a_short_small_job_slips_in_before_the_blocked_head(plan: str):
    jobs = (gang("long", 3, 100), gang("head", 4, 10, 1), gang("small", 1, 50, 2))
    assert starts_s(Load(grid("4x1"), jobs).run(plan)) == {"long": 0, "head": 100, "small": 2}


@pytest.mark.parametrize("plan", PROMISING)
def test_a_long_small_job_must_not_slip_in(plan: str):
    jobs = (gang("long", 3, 100), gang("head", 4, 10, 1), gang("small", 1, 99, 2))
    assert starts_s(Load(grid("4x1"), jobs).run(plan)) == {"long": 0, "head": 100, "small": 110}


@pytest.mark.parametrize("plan", PROMISING)
def test_a_job_that_ends_just_in_time_slips_in(plan: str):
    jobs = (gang("long", 3, 100), gang("head", 4, 10, 1), gang("small", 1, 98, 2))
    assert starts_s(Load(grid("4x1"), jobs).run(plan))["small"] == 2


@pytest.mark.parametrize("plan", PROMISING)
def test_a_long_job_slips_in_on_cards_the_head_leaves_over(plan: str):
    jobs = (gang("long", 2, 100), gang("head", 3, 10, 1), gang("small", 1, 500, 2))
    assert starts_s(Load(grid("4x1"), jobs).run(plan)) == {"long": 0, "head": 100, "small": 2}


def test_cards_left_over_are_given_once():
    jobs = (gang("long", 2, 100), gang("head", 3, 10, 1), gang("one", 1, 500, 2), gang("two", 1, 500, 2))
    assert starts_s(Load(grid("4x1"), jobs).run("easy")) == {"long": 0, "head": 100, "one": 2, "two": 110}


def test_without_a_plan_nobody_passes_the_head():
    jobs = (gang("long", 3, 100), gang("head", 4, 10, 1), gang("small", 1, 5, 2))
    assert starts_s(Load(grid("4x1"), jobs).run("none")) == {"long": 0, "head": 100, "small": 110}


def test_shortest_first_prefers_the_shorter_of_two_that_could_slip_in():
    jobs = (gang("long", 3, 100), gang("head", 4, 10, 1), gang("mid", 1, 60, 2), gang("short", 1, 50, 2))
    by_order = starts_s(Load(grid("4x1"), jobs).run("easy"))
    by_length = starts_s(Load(grid("4x1"), jobs).run("easy:backfill=shortest"))
    assert (by_order["mid"], by_order["short"]) == (2, 110)
    assert (by_length["mid"], by_length["short"]) == (110, 2)


def test_easy_may_delay_the_second_in_line_and_conservative_may_not():
    # "small" fits beside the head for good, but takes the card that "second" would have started on.
    jobs = (
        gang("long", 3, 10), gang("head", 3, 10, 1), gang("second", 4, 10, 2), gang("small", 1, 30, 3),
    )  # fmt: skip
    assert starts_s(Load(grid("4x1"), jobs).run("easy")) == {"long": 0, "head": 10, "second": 33, "small": 3}
    assert starts_s(Load(grid("4x1"), jobs).run("conservative")) == {"long": 0, "head": 10, "second": 20, "small": 30}
    assert starts_s(Load(grid("4x1"), jobs).run("easy:reservations=2"))["second"] == 20


@pytest.mark.parametrize("plan", ["none", *PROMISING])
def test_a_stream_of_small_jobs_does_not_starve_a_large_one(plan: str):
    stream = tuple(gang(f"s{i}", 1, 10, 3 * i) for i in range(100))
    result = Load(grid("4x1"), (*stream, gang("large", 4, 10, 20))).run(plan)
    assert starts_s(result)["large"] <= 30


@pytest.mark.parametrize("plan", ["none", *PROMISING])
def test_a_stream_of_small_jobs_of_unknown_length_does_not_starve_a_large_one(plan: str):
    stream = tuple(gang(f"s{i}", 1, 10, 3 * i) for i in range(100))
    result = Load(grid("4x1"), (*stream, gang("large", 4, 10, 20))).run(plan, forecast=lambda trace: UNKNOWN)
    assert starts_s(result)["large"] <= 30


@pytest.mark.parametrize("plan", ["none", *PROMISING])
def test_two_gangs_that_need_more_than_half_both_finish(plan: str):
    half = (Role("master", 1, Request(gpus=1, cpu_milli=1000)), Role("worker", 2, Request(gpus=1)))
    jobs = (asks("one", half, 10), asks("two", half, 10), asks("three", half, 10))
    assert starts_s(Load(grid("2x2"), jobs).run(plan)) == {"one": 0, "two": 10, "three": 20}


@pytest.mark.parametrize("plan", PROMISING)
def test_an_early_end_lets_the_head_start_at_once(plan: str):
    jobs = (gang("long", 4, 30, estimate=100), gang("head", 4, 10, 1))
    assert starts_s(Load(grid("4x1"), jobs).run(plan, forecast=user))["head"] == 30


@pytest.mark.parametrize("plan", PROMISING)
def test_whom_an_overrun_moves_is_told(plan: str):
    jobs = (gang("long", 4, 100, estimate=30), gang("head", 4, 10, 1))
    result = Load(grid("4x1"), jobs).run(plan, forecast=user)
    assert starts_s(result)["head"] == 100
    moved = [move for move in result.moved_reservations if move[0] == "head"]
    assert moved
    assert all(promised == 30 * S < to and "long" in why for _, promised, to, why in moved)


@pytest.mark.parametrize("plan", ["easy:reservations=3", "conservative"])
def test_who_starts_as_soon_as_an_overrun_is_seen_is_told_that_it_is_late(plan: str):
    """The card that "first" left is named for "one" at 30, so "small", too long to slip in, is promised 30 as well.
    Then "long" goes on, they wait, and "small" may have the card at once: it starts late and gets no other promise."""
    jobs = (
        gang("first", 1, 20), gang("long", 4, 100, estimate=30),
        gang("one", 2, 10, 1), gang("two", 2, 10, 1), gang("small", 1, 3, 28),
    )  # fmt: skip
    result = Load(grid("5x1"), jobs).run(plan, forecast=user)
    small = result.outcomes[4]
    assert (small.promised_us, small.started_us) == (30 * S, 30 * S + 1)
    assert [move for move in result.moved_reservations if move[0] == "small"] == [
        ("small", 30 * S, 30 * S + 1, "long runs longer than predicted")
    ]


# -- promises are kept: with exact times nobody starts later than first promised -----------------------------------


@pytest.mark.parametrize("plan", PROMISING)
@examples(37)
@given(load=loads(plain_clusters(), single_cards, mixed=False, most=14))
def test_promises_hold_where_counting_decides(plan: str, load: Load):
    never_late(load.run(plan, on_cycle=audit))


@pytest.mark.parametrize("plan", PROMISING)
@examples(37)
@given(load=loads(mixed=False))
def test_promises_hold_for_shares_cpu_models_and_named_cards(plan: str, load: Load):
    never_late(load.run(plan, on_cycle=audit))


@pytest.mark.parametrize("plan", PROMISING)
@examples(37)
@given(load=loads(roles=3))
def test_promises_hold_for_mixed_gangs(plan: str, load: Load):
    never_late(load.run(plan, on_cycle=audit))


@pytest.mark.parametrize("plan", PROMISING)
@examples(37)
@given(load=loads(windows=True))
def test_promises_hold_around_maintenance(plan: str, load: Load):
    never_late(load.run(plan, on_cycle=audit))


@pytest.mark.parametrize("plan", PROMISING)
@examples(20)
@given(load=loads(mixed=False, elastic=True))
def test_promises_hold_beside_elastic_gangs(plan: str, load: Load):
    never_late(load.run(plan, on_cycle=audit))


@examples(20)
@given(load=loads(mixed=False), later=st.data())
def test_conservative_keeps_what_it_promised_at_submission_whoever_comes_later(load: Load, later: st.DataObject):
    """Who comes later may cost a job the luck of starting sooner than promised, never the promise."""
    last_us = max(trace.job.submitted_us for trace in load.jobs)
    extra = later.draw(loads(mixed=False, most=5))
    added = tuple(
        replace(t, job=replace(t.job, id=f"late{i}", submitted_us=last_us + t.job.submitted_us + 1))
        for i, t in enumerate(extra.jobs)
    )
    alone = load.run("conservative")
    together = Load(load.cluster, load.jobs + added).run("conservative")
    never_late(together)
    promised = [[o.promised_us for o in result.outcomes[: len(load.jobs)]] for result in (alone, together)]
    assert promised[0] == promised[1]


# -- with wrong times promises move only for a cause that is told --------------------------------------------------


@pytest.mark.parametrize("plan", PROMISING)
@examples(37)
@given(load=loads(estimates="any", ask=st.one_of(single_cards, requests), mixed=False))
def test_whoever_starts_later_than_promised_was_told_why(plan: str, load: Load):
    result = load.run(plan, forecast=user, on_cycle=audit)
    told = {job_id for job_id, *_ in result.moved_reservations}
    for o in result.outcomes:
        if o.promised_us is not None and o.started_us is not None and o.started_us > o.promised_us:
            assert o.job.id in told, f"{o.job.id} was promised {o.promised_us}, started {o.started_us}, never told"


@pytest.mark.parametrize("plan", PROMISING)
@examples(37)
@given(load=loads(estimates="over", mixed=False))
def test_with_estimates_never_too_short_nobody_starts_later_than_promised(plan: str, load: Load):
    never_late(load.run(plan, forecast=user, on_cycle=audit))


# -- maintenance and drains are reservations too -------------------------------------------------------------------


@pytest.mark.parametrize("plan", ["none", *PROMISING])
@examples(20)
@given(load=loads(windows=True, elastic=False))
def test_nobody_is_on_a_node_during_its_maintenance(plan: str, load: Load):
    result = load.run(plan)
    node_of = [n.id for n in load.cluster.nodes for _ in n.cards]
    for o in result.outcomes:
        for span in o.spans:
            for window in load.windows:
                if span.started_us < window.end_us and window.start_us < span.ended_us:
                    assert not {node_of[c] for c in span.cards} & set(window.nodes), f"{o.job.id} runs into {window.id}"


@pytest.mark.parametrize("plan", ["none", *PROMISING])
def test_who_waits_for_the_end_of_maintenance_starts_at_its_end(plan: str):
    window = MaintenanceWindow("w", ("n0",), 0, 100 * S)
    assert starts_s(Load(grid("1x1"), (gang("j", 1, 10, 5),), (window,)).run(plan)) == {"j": 100}


@pytest.mark.parametrize("plan", ["none", *PROMISING])
def test_a_job_that_would_run_into_maintenance_waits_until_it_is_over(plan: str):
    window = MaintenanceWindow("w", ("n0",), 50 * S, 100 * S)
    jobs = (gang("long", 1, 60, 5), gang("short", 1, 30, 5))
    starts = starts_s(Load(grid("1x1"), jobs, (window,)).run(plan))
    assert starts["long"] == 100
    assert starts["short"] == (160 if plan == "none" else 5)


@pytest.mark.parametrize("plan", ["none", *PROMISING])
def test_a_drained_node_takes_nothing_new_and_is_promised_to_nobody(plan: str):
    jobs = (gang("here", 1, 100), gang("there", 1, 200), gang("next", 1, 10, 20))
    drained = ((10 * S, NodeChanged("n0", False)),)
    result = Load(grid("2x1"), jobs, incidents=drained).run(plan)
    outcome = result.outcomes[2]
    assert outcome.spans[0].cards == (1,)
    assert (outcome.promised_us, outcome.started_us) == (200 * S, 200 * S)


def test_the_cards_of_a_drained_node_are_not_left_over_for_others():
    # At 100 only n1 comes free: the head needs it and n2, so nothing is left for "small" to keep.
    jobs = (gang("a", 1, 100), gang("b", 1, 100), gang("head", 2, 10, 20), gang("small", 1, 500, 21))
    drained = ((10 * S, NodeChanged("n0", False)),)
    starts = starts_s(Load(grid("3x1"), jobs, incidents=drained).run("easy"))
    assert starts["head"] == 100


# -- sharp corners -------------------------------------------------------------------------------------------------


def test_capacity_of_mixed_gangs_comes_free_once():
    """A gang with whole cards and shares: its CPU must not be counted twice at its end."""
    node = Node("n0", (Card("c0"), Card("c1")), 4000, 0)
    other = Node("n1", (), 1000, 0)
    mixed = (Role("a", 1, Request(gpus=1, cpu_milli=2000)), Role("b", 1, Request(share=Share(GIB), cpu_milli=1000)))
    jobs = (
        asks("mixed", mixed, 10), asks("long", Request(cpu_milli=1000), 50),
        asks("big", Request(cpu_milli=4000), 5, 1),
    )  # fmt: skip
    result = Load(Cluster((node, other)), jobs).run("easy", on_cycle=audit)
    never_late(result)


@pytest.mark.parametrize("plan", ["easy:reservations=2", "conservative"])
def test_cards_of_one_promise_are_not_moved_onto_those_of_another(plan: str):
    """Who is in front of the first promise only must not push it onto cards of the second."""
    nodes = [Node(f"n{n}", (Card(f"n{n}/0"),)) for n in range(3)]
    cpu = Node("cpu", (), 1000)
    second = (Role("card", 1, Request(gpus=1, card="n2/0")), Role("helper", 1, Request(cpu_milli=1000)))
    jobs = (
        asks("a", Request(gpus=1, card="n1/0"), 10), asks("b", Request(gpus=1, card="n2/0"), 10),
        asks("c", Request(cpu_milli=1000), 15),
        gang("first", 2, 10, 1), asks("second", second, 10, 1), gang("slips", 1, 12, 1),
    )  # fmt: skip
    result = Load(Cluster((*nodes, cpu)), jobs).run(plan, on_cycle=audit)
    assert (starts_s(result)["first"], starts_s(result)["second"]) == (10, 15)
    never_late(result)


def test_cards_of_a_promise_are_not_moved_into_maintenance():
    jobs = (
        asks("a", Request(gpus=1, card="n1/0"), 10), asks("b", Request(gpus=1, card="n2/0"), 10),
        gang("head", 2, 10, 1), gang("slips", 1, 12, 2),
    )  # fmt: skip
    window = MaintenanceWindow("w", ("n2",), 15 * S, 30 * S)
    result = Load(grid("3x1"), jobs, (window,)).run("easy", on_cycle=audit)
    assert starts_s(result)["head"] == 10


def test_a_run_that_is_due_now_and_goes_on_does_not_let_others_pass_the_head():
    """At 10 "late" should have ended and has not. When it will is unknown; the head is still the head."""
    jobs = (gang("late", 1, 12, estimate=10), gang("head", 2, 10, 10), gang("long", 1, 500, 10))
    assert starts_s(Load(grid("2x1"), jobs).run("easy", forecast=user))["head"] == 12


def test_a_job_that_takes_no_time_does_not_let_others_pass_the_head():
    jobs = (gang("none", 1, 0), gang("head", 2, 10), gang("long", 1, 500))
    assert starts_s(Load(grid("2x1"), jobs).run("easy"))["head"] == 0


def test_an_elastic_gang_that_starts_with_fewer_tasks_is_expected_to_take_longer():
    """Four tasks take 10, one takes 40: too long to slip in before the head."""
    elastic = (Role("w", 4, Request(gpus=1), 1, 4),)
    jobs = (gang("long", 3, 20), gang("head", 4, 10, 1), asks("elastic", elastic, 10, 2))
    never_late(Load(grid("4x1"), jobs).run("easy", on_cycle=audit))


def test_an_elastic_gang_of_two_kinds_of_tasks_fits_at_its_least():
    roles = (Role("master", 1, Request(gpus=1, cpu_milli=1000)), Role("worker", 1, Request(gpus=1), 1, 4))
    assert starts_s(Load(grid("1x4"), (asks("j", roles, 10),)).run("easy")) == {"j": 0}


def test_an_elastic_gang_does_not_grow_into_maintenance():
    elastic = (Role("w", 1, Request(gpus=1), 1, 2),)
    window = MaintenanceWindow("w", ("n1",), 10 * S, 1000 * S)
    result = Load(grid("2x1"), (asks("j", elastic, 100),), (window,)).run("easy", on_cycle=audit)
    assert all(span.cards == (0,) for span in result.outcomes[0].spans)


def test_an_elastic_gang_shrinks_on_a_drained_node():
    elastic = (Role("w", 1, Request(gpus=1), 1, 2),)
    jobs = (asks("elastic", elastic, 100), gang("next", 1, 10, 20))
    incidents = ((10 * S, NodeChanged("n0", False)), (50 * S, NodeChanged("n0", True)))
    result = Load(grid("1x2"), jobs, incidents=incidents).run("easy", on_cycle=audit)
    assert all(o.end == "succeeded" for o in result.outcomes)


def test_restarts_are_part_of_what_is_predicted():
    """A gang lost and started again takes its restart time too: others' promises must know."""
    again = asks("again", Request(gpus=1), 10, checkpoint=Checkpoint(1 * S, 5 * S))
    jobs = (again, gang("head", 1, 10, 6))
    incidents = ((5 * S, CardChanged("n0/0", False)), (5 * S, CardChanged("n0/0", True)))
    result = Load(grid("1x1"), jobs, incidents=incidents).run("easy", on_cycle=audit)
    assert starts_s(result)["head"] == 15
    never_late(result)


def test_a_job_over_its_tenants_limit_forever_is_refused():
    policies = make_policies(tenants=(TenantQuota("small", limit_gpus=1),))
    result = Load(grid("2x1"), (gang("j", 2, 10, tenant="small"),)).run(policies=policies)
    assert result.outcomes[0].end == "refused"


def test_when_the_head_is_taken_back_those_behind_it_move_up():
    """The head holds no promise, for nobody knows when the runs end; still it was what the others waited for."""
    state = SchedulerState(grid("2x1"), make_policies(plan="none"))
    driver = Driver(state, lambda now_us, decisions: None)
    for trace in (gang("runs", 1, 10), gang("head", 2, 10), gang("next", 1, 10)):
        driver.apply(0, JobSubmitted(trace.job, UNKNOWN))
    driver.decide(0)
    driver.apply(1, JobCancelled("head"))
    assert [decision.job_id for decision in driver.decide(1)] == ["next"]


@pytest.mark.parametrize("plan", ["none", *PROMISING])
def test_who_is_short_enough_before_maintenance_does_not_let_in_who_is_not(plan: str):
    windows = (MaintenanceWindow("now", ("n1",), 0, 100 * S), MaintenanceWindow("soon", ("n0",), 10 * S, 20 * S))
    jobs = (gang("short", 1, 5), gang("long", 1, 15))
    assert starts_s(Load(grid("2x2"), jobs, windows).run(plan)) == {"short": 0, "long": 20}


@pytest.mark.parametrize("plan", PROMISING)
def test_who_waits_for_nothing_but_maintenance_holds_a_promise(plan: str):
    """Nothing runs and all cards are idle: only the window is in the way."""
    job = asks("j", Request(gpus=1, cpu_milli=1000), 10, 5)
    result = Load(grid("1x1"), (job,), (MaintenanceWindow("w", ("n0",), 0, 100 * S),)).run(plan)
    assert result.outcomes[0].promised_us == result.outcomes[0].started_us == 100 * S


# -- decided too late ----------------------------------------------------------------------------------------------


def two_wait_in_line(plan: str) -> Driver:
    """``first`` holds both cards until 10 s; ``next`` is promised them from then to 20 s, ``last`` after that."""
    driver = Driver(SchedulerState(grid("1x2"), make_policies(plan=plan)), lambda now_us, decisions: None)
    for name, long_s in (("first", 10), ("next", 10), ("last", 100)):
        driver.apply(0, JobSubmitted(gang(name, 2, long_s).job, RunTimePrediction(long_s * S, long_s * S, "user")))
    driver.decide(0)
    reservations = driver.state.timeline.reservations
    assert {name: reservation.start_us for name, reservation in reservations.items()} == {
        "next": 10 * S,
        "last": 20 * S,
    }
    return driver


@pytest.mark.parametrize("plan", ["easy:reservations=2", "conservative"])
@pytest.mark.parametrize("late_us", [0, 1, 5 * S, 10 * S, 11 * S, 105 * S, 1000 * S])
def test_promises_missed_by_a_late_decision_keep_nobody_waiting_on_idle_cards(plan: str, late_us: int):
    driver = two_wait_in_line(plan)
    now_us = 10 * S + late_us
    driver.apply(now_us, GangEnded("first", "succeeded"))
    assert [decision.job_id for decision in driver.decide(now_us)] == ["next"], "who is first in line starts first"
    assert driver.state.timeline.reservations["last"].start_us == now_us + 10 * S
    moved = [("next", 10 * S, now_us), ("last", 20 * S, now_us + 10 * S)] if late_us else []
    assert [move[:3] for move in driver.state.delayed_starts] == moved, "both are told that they are late"
    assert all("missed" in why for *_, why in driver.state.delayed_starts)
    audit(driver.state, now_us)
