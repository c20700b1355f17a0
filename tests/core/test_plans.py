"""Plan policies: reservations, backfill, and reports of reservations that move."""

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
    examples,
    gang,
    loads,
    make_trace,
    plain_clusters,
    requests,
    single_cards,
    starts_s,
)

S = 1_000_000
PLANS_WITH_RESERVATIONS = ["easy", "easy:reservations=3", "conservative"]


def check_no_late_start(result) -> None:
    """No job starts after its first reserved start."""
    late = {o.job.id: (o.promised_us, o.started_us) for o in result.outcomes
            if o.promised_us is not None and (o.started_us is None or o.started_us > o.promised_us)}  # fmt: skip
    assert not late, f"reserved and actual starts: {late}"


# -- the textbook cases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
def test_short_job_is_backfilled_before_the_blocked_head(plan: str):
    jobs = (gang("long", 3, 100), gang("head", 4, 10, 1), gang("small", 1, 50, 2))
    assert starts_s(Load(grid("4x1"), jobs).run(plan)) == {"long": 0, "head": 100, "small": 2}


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
def test_long_job_that_would_delay_the_head_is_not_backfilled(plan: str):
    jobs = (gang("long", 3, 100), gang("head", 4, 10, 1), gang("small", 1, 99, 2))
    assert starts_s(Load(grid("4x1"), jobs).run(plan)) == {"long": 0, "head": 100, "small": 110}


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
def test_job_that_ends_at_the_shadow_time_is_backfilled(plan: str):
    jobs = (gang("long", 3, 100), gang("head", 4, 10, 1), gang("small", 1, 98, 2))
    assert starts_s(Load(grid("4x1"), jobs).run(plan))["small"] == 2


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
def test_long_job_is_backfilled_on_spare_cards(plan: str):
    jobs = (gang("long", 2, 100), gang("head", 3, 10, 1), gang("small", 1, 500, 2))
    assert starts_s(Load(grid("4x1"), jobs).run(plan)) == {"long": 0, "head": 100, "small": 2}


def test_spare_cards_are_used_once():
    jobs = (gang("long", 2, 100), gang("head", 3, 10, 1), gang("one", 1, 500, 2), gang("two", 1, 500, 2))
    assert starts_s(Load(grid("4x1"), jobs).run("easy")) == {"long": 0, "head": 100, "one": 2, "two": 110}


def test_plan_none_never_backfills():
    jobs = (gang("long", 3, 100), gang("head", 4, 10, 1), gang("small", 1, 5, 2))
    assert starts_s(Load(grid("4x1"), jobs).run("none")) == {"long": 0, "head": 100, "small": 110}


def test_shortest_backfill_prefers_the_shorter_of_two_candidates():
    jobs = (gang("long", 3, 100), gang("head", 4, 10, 1), gang("mid", 1, 60, 2), gang("short", 1, 50, 2))
    by_order = starts_s(Load(grid("4x1"), jobs).run("easy"))
    by_length = starts_s(Load(grid("4x1"), jobs).run("easy:backfill=shortest"))
    assert (by_order["mid"], by_order["short"]) == (2, 110)
    assert (by_length["mid"], by_length["short"]) == (110, 2)


def test_easy_may_delay_the_second_job_and_conservative_does_not():
    # "small" fits beside the head indefinitely, but uses the card on which "second" would have started.
    jobs = (
        gang("long", 3, 10), gang("head", 3, 10, 1), gang("second", 4, 10, 2), gang("small", 1, 30, 3),
    )  # fmt: skip
    assert starts_s(Load(grid("4x1"), jobs).run("easy")) == {"long": 0, "head": 10, "second": 33, "small": 3}
    assert starts_s(Load(grid("4x1"), jobs).run("conservative")) == {"long": 0, "head": 10, "second": 20, "small": 30}
    assert starts_s(Load(grid("4x1"), jobs).run("easy:reservations=2"))["second"] == 20


@pytest.mark.parametrize("plan", ["none", *PLANS_WITH_RESERVATIONS])
def test_stream_of_small_jobs_does_not_starve_a_large_one(plan: str):
    stream = tuple(gang(f"s{i}", 1, 10, 3 * i) for i in range(100))
    result = Load(grid("4x1"), (*stream, gang("large", 4, 10, 20))).run(plan)
    assert starts_s(result)["large"] <= 30


@pytest.mark.parametrize("plan", ["none", *PLANS_WITH_RESERVATIONS])
def test_stream_of_jobs_of_unknown_length_does_not_starve_a_large_one(plan: str):
    stream = tuple(gang(f"s{i}", 1, 10, 3 * i) for i in range(100))
    result = Load(grid("4x1"), (*stream, gang("large", 4, 10, 20))).run(plan, forecast=lambda trace: UNKNOWN)
    assert starts_s(result)["large"] <= 30


@pytest.mark.parametrize("plan", ["none", *PLANS_WITH_RESERVATIONS])
def test_gangs_that_need_more_than_half_run_one_after_another(plan: str):
    half = (Role("master", 1, Request(gpus=1, cpu_milli=1000)), Role("worker", 2, Request(gpus=1)))
    jobs = (make_trace("one", half, 10), make_trace("two", half, 10), make_trace("three", half, 10))
    assert starts_s(Load(grid("2x2"), jobs).run(plan)) == {"one": 0, "two": 10, "three": 20}


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
def test_head_starts_at_once_after_an_early_end(plan: str):
    jobs = (gang("long", 4, 30, estimate=100), gang("head", 4, 10, 1))
    assert starts_s(Load(grid("4x1"), jobs).run(plan, forecast=user))["head"] == 30


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
def test_reservation_moved_by_an_overrun_is_reported_with_the_cause(plan: str):
    jobs = (gang("long", 4, 100, estimate=30), gang("head", 4, 10, 1))
    result = Load(grid("4x1"), jobs).run(plan, forecast=user)
    assert starts_s(result)["head"] == 100
    moved = [move for move in result.moved_reservations if move[0] == "head"]
    assert moved
    assert all(reserved_us == 30 * S < new_us and "long" in why for _, reserved_us, new_us, why in moved)


@pytest.mark.parametrize("plan", ["easy:reservations=3", "conservative"])
def test_late_start_after_an_overrun_is_reported(plan: str):
    """The free card is reserved for "one" at 30. "small" is too long for backfill and gets a reservation at 30 as well.
    Then "long" overruns, "one" and "two" wait, and "small" starts late and without a new reservation, as soon as its
    stay is short beside the lateness of "one"."""
    jobs = (
        gang("first", 1, 20), gang("long", 4, 100, estimate=30),
        gang("one", 2, 10, 1), gang("two", 2, 10, 1), gang("small", 1, 3, 28),
    )  # fmt: skip
    result = Load(grid("5x1"), jobs).run(plan, forecast=user)
    small = result.outcomes[4]
    assert (small.promised_us, small.started_us) == (30 * S, 60 * S + 23)
    moved = [move for move in result.moved_reservations if move[0] == "small"]
    assert all(move[1] == 30 * S < move[2] and move[3] == "long runs longer than predicted" for move in moved)
    assert moved[-1][2] == small.started_us


# -- exact run times: no job starts after its first reserved start -------------------------------------------------


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
@examples(37)
@given(load=loads(plain_clusters(), single_cards, mixed=False, most=14))
def test_reservations_hold_for_single_card_gangs(plan: str, load: Load):
    check_no_late_start(load.run(plan, on_cycle=audit))


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
@examples(37)
@given(load=loads(mixed=False))
def test_reservations_hold_for_shares_cpu_models_and_named_cards(plan: str, load: Load):
    check_no_late_start(load.run(plan, on_cycle=audit))


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
@examples(37)
@given(load=loads(roles=3))
def test_reservations_hold_for_mixed_gangs(plan: str, load: Load):
    check_no_late_start(load.run(plan, on_cycle=audit))


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
@examples(37)
@given(load=loads(windows=True))
def test_reservations_hold_around_maintenance(plan: str, load: Load):
    check_no_late_start(load.run(plan, on_cycle=audit))


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
@examples(20)
@given(load=loads(mixed=False, elastic=True))
def test_reservations_hold_beside_elastic_gangs(plan: str, load: Load):
    check_no_late_start(load.run(plan, on_cycle=audit))


@examples(20)
@given(load=loads(mixed=False), later=st.data())
def test_conservative_first_reservations_do_not_depend_on_later_jobs(load: Load, later: st.DataObject):
    """A later job may prevent an early start, but never delays a reservation."""
    last_us = max(trace.job.submitted_us for trace in load.jobs)
    extra = later.draw(loads(mixed=False, most=5))
    added = tuple(
        replace(t, job=replace(t.job, id=f"late{i}", submitted_us=last_us + t.job.submitted_us + 1))
        for i, t in enumerate(extra.jobs)
    )
    alone = load.run("conservative")
    together = Load(load.cluster, load.jobs + added).run("conservative")
    check_no_late_start(together)
    reserved_us = [[o.promised_us for o in result.outcomes[: len(load.jobs)]] for result in (alone, together)]
    assert reserved_us[0] == reserved_us[1]


# -- wrong run times: reservations move only for a reported cause --------------------------------------------------


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
@examples(37)
@given(load=loads(estimates="any", request=st.one_of(single_cards, requests), mixed=False))
def test_start_after_the_reserved_time_is_reported(plan: str, load: Load):
    result = load.run(plan, forecast=user, on_cycle=audit)
    reported = {job_id for job_id, *_ in result.moved_reservations}
    for o in result.outcomes:
        if o.promised_us is not None and o.started_us is not None and o.started_us > o.promised_us:
            assert o.job.id in reported, (
                f"{o.job.id} was reserved for {o.promised_us}, started {o.started_us}, not reported"
            )


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
@examples(37)
@given(load=loads(estimates="over", mixed=False))
def test_reservations_hold_when_no_estimate_is_too_short(plan: str, load: Load):
    check_no_late_start(load.run(plan, forecast=user, on_cycle=audit))


# -- maintenance and drains ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", ["none", *PLANS_WITH_RESERVATIONS])
@examples(20)
@given(load=loads(windows=True, elastic=False))
def test_no_job_runs_on_a_node_during_its_maintenance(plan: str, load: Load):
    result = load.run(plan)
    node_of = [n.id for n in load.cluster.nodes for _ in n.cards]
    for o in result.outcomes:
        for span in o.spans:
            for window in load.windows:
                if span.started_us < window.end_us and window.start_us < span.ended_us:
                    assert not {node_of[c] for c in span.cards} & set(window.nodes), f"{o.job.id} runs into {window.id}"


@pytest.mark.parametrize("plan", ["none", *PLANS_WITH_RESERVATIONS])
def test_job_starts_at_the_end_of_maintenance(plan: str):
    window = MaintenanceWindow("w", ("n0",), 0, 100 * S)
    assert starts_s(Load(grid("1x1"), (gang("j", 1, 10, 5),), (window,)).run(plan)) == {"j": 100}


@pytest.mark.parametrize("plan", ["none", *PLANS_WITH_RESERVATIONS])
def test_job_that_would_run_into_maintenance_waits_until_its_end(plan: str):
    window = MaintenanceWindow("w", ("n0",), 50 * S, 100 * S)
    jobs = (gang("long", 1, 60, 5), gang("short", 1, 30, 5))
    starts = starts_s(Load(grid("1x1"), jobs, (window,)).run(plan))
    assert starts["long"] == 100
    assert starts["short"] == (160 if plan == "none" else 5)


@pytest.mark.parametrize("plan", ["none", *PLANS_WITH_RESERVATIONS])
def test_drained_node_gets_no_job_and_no_reservation(plan: str):
    jobs = (gang("here", 1, 100), gang("there", 1, 200), gang("next", 1, 10, 20))
    drained = ((10 * S, NodeChanged("n0", False)),)
    result = Load(grid("2x1"), jobs, incidents=drained).run(plan)
    outcome = result.outcomes[2]
    assert outcome.spans[0].cards == (1,)
    assert (outcome.promised_us, outcome.started_us) == (200 * S, 200 * S)


def test_cards_of_a_drained_node_are_not_spare():
    # At 100 only n1 becomes free. The head needs n1 and n2, so no spare card remains for "small".
    jobs = (gang("a", 1, 100), gang("b", 1, 100), gang("head", 2, 10, 20), gang("small", 1, 500, 21))
    drained = ((10 * S, NodeChanged("n0", False)),)
    starts = starts_s(Load(grid("3x1"), jobs, incidents=drained).run("easy"))
    assert starts["head"] == 100


# -- corner cases --------------------------------------------------------------------------------------------------


def test_capacity_of_mixed_gangs_is_released_once():
    """A gang with whole cards and shares: its CPU must not be counted twice at its end."""
    node = Node("n0", (Card("c0"), Card("c1")), 4000, 0)
    other = Node("n1", (), 1000, 0)
    mixed = (Role("a", 1, Request(gpus=1, cpu_milli=2000)), Role("b", 1, Request(share=Share(GIB), cpu_milli=1000)))
    jobs = (
        make_trace("mixed", mixed, 10), make_trace("long", Request(cpu_milli=1000), 50),
        make_trace("big", Request(cpu_milli=4000), 5, 1),
    )  # fmt: skip
    result = Load(Cluster((node, other)), jobs).run("easy", on_cycle=audit)
    check_no_late_start(result)


@pytest.mark.parametrize("plan", ["easy:reservations=2", "conservative"])
def test_reservation_is_not_moved_onto_cards_of_another(plan: str):
    """A job that conflicts only with the first reservation must not push it onto cards of the second."""
    nodes = [Node(f"n{n}", (Card(f"n{n}/0"),)) for n in range(3)]
    cpu = Node("cpu", (), 1000)
    second = (Role("card", 1, Request(gpus=1, card="n2/0")), Role("helper", 1, Request(cpu_milli=1000)))
    jobs = (
        make_trace("a", Request(gpus=1, card="n1/0"), 10), make_trace("b", Request(gpus=1, card="n2/0"), 10),
        make_trace("c", Request(cpu_milli=1000), 15),
        gang("first", 2, 10, 1), make_trace("second", second, 10, 1), gang("slips", 1, 12, 1),
    )  # fmt: skip
    result = Load(Cluster((*nodes, cpu)), jobs).run(plan, on_cycle=audit)
    assert (starts_s(result)["first"], starts_s(result)["second"]) == (10, 15)
    check_no_late_start(result)


def test_reservation_is_not_moved_into_maintenance():
    jobs = (
        make_trace("a", Request(gpus=1, card="n1/0"), 10), make_trace("b", Request(gpus=1, card="n2/0"), 10),
        gang("head", 2, 10, 1), gang("slips", 1, 12, 2),
    )  # fmt: skip
    window = MaintenanceWindow("w", ("n2",), 15 * S, 30 * S)
    result = Load(grid("3x1"), jobs, (window,)).run("easy", on_cycle=audit)
    assert starts_s(result)["head"] == 10


def test_overrun_at_its_predicted_end_does_not_allow_backfill_before_the_head():
    """At 10 "late" should have ended but still runs. Its end is unknown, but the head keeps its position."""
    jobs = (gang("late", 1, 12, estimate=10), gang("head", 2, 10, 10), gang("long", 1, 500, 10))
    assert starts_s(Load(grid("2x1"), jobs).run("easy", forecast=user))["head"] == 12


def test_job_of_zero_length_does_not_allow_backfill_before_the_head():
    jobs = (gang("none", 1, 0), gang("head", 2, 10), gang("long", 1, 500))
    assert starts_s(Load(grid("2x1"), jobs).run("easy"))["head"] == 0


def test_elastic_gang_started_with_fewer_tasks_is_predicted_to_run_longer():
    """Four tasks take 10, one task takes 40: too long for backfill before the head."""
    elastic = (Role("w", 4, Request(gpus=1), 1, 4),)
    jobs = (gang("long", 3, 20), gang("head", 4, 10, 1), make_trace("elastic", elastic, 10, 2))
    check_no_late_start(Load(grid("4x1"), jobs).run("easy", on_cycle=audit))


def test_elastic_gang_of_two_roles_starts_at_its_minimum():
    roles = (Role("master", 1, Request(gpus=1, cpu_milli=1000)), Role("worker", 1, Request(gpus=1), 1, 4))
    assert starts_s(Load(grid("1x4"), (make_trace("j", roles, 10),)).run("easy")) == {"j": 0}


def test_elastic_gang_does_not_grow_into_maintenance():
    elastic = (Role("w", 1, Request(gpus=1), 1, 2),)
    window = MaintenanceWindow("w", ("n1",), 10 * S, 1000 * S)
    result = Load(grid("2x1"), (make_trace("j", elastic, 100),), (window,)).run("easy", on_cycle=audit)
    assert all(span.cards == (0,) for span in result.outcomes[0].spans)


def test_elastic_gang_shrinks_on_a_drained_node():
    elastic = (Role("w", 1, Request(gpus=1), 1, 2),)
    jobs = (make_trace("elastic", elastic, 100), gang("next", 1, 10, 20))
    incidents = ((10 * S, NodeChanged("n0", False)), (50 * S, NodeChanged("n0", True)))
    result = Load(grid("1x2"), jobs, incidents=incidents).run("easy", on_cycle=audit)
    assert all(o.end == "succeeded" for o in result.outcomes)


def test_predicted_end_includes_the_restart_time():
    """A gang that was lost and started again also takes its restart time; reservations of others must include it."""
    again = make_trace("again", Request(gpus=1), 10, checkpoint=Checkpoint(1 * S, 5 * S))
    jobs = (again, gang("head", 1, 10, 6))
    incidents = ((5 * S, CardChanged("n0/0", False)), (5 * S, CardChanged("n0/0", True)))
    result = Load(grid("1x1"), jobs, incidents=incidents).run("easy", on_cycle=audit)
    assert starts_s(result)["head"] == 15
    check_no_late_start(result)


def test_job_larger_than_the_limit_of_its_tenant_is_refused():
    policies = make_policies(tenants=(TenantQuota("small", limit_gpus=1),))
    result = Load(grid("2x1"), (gang("j", 2, 10, tenant="small"),)).run(policies=policies)
    assert result.outcomes[0].end == "refused"


def test_next_job_starts_when_the_head_is_cancelled():
    """The head has no reservation because the ends of the runs are unknown, but it still blocks the next job."""
    state = SchedulerState(grid("2x1"), make_policies(plan="none"))
    driver = Driver(state, lambda now_us, decisions: None)
    for trace in (gang("runs", 1, 10), gang("head", 2, 10), gang("next", 1, 10)):
        driver.apply(0, JobSubmitted(trace.job, UNKNOWN))
    driver.decide(0)
    driver.apply(1, JobCancelled("head"))
    assert [decision.job_id for decision in driver.decide(1)] == ["next"]


@pytest.mark.parametrize("plan", ["none", *PLANS_WITH_RESERVATIONS])
def test_long_job_waits_although_a_shorter_one_fits_before_maintenance(plan: str):
    windows = (MaintenanceWindow("now", ("n1",), 0, 100 * S), MaintenanceWindow("soon", ("n0",), 10 * S, 20 * S))
    jobs = (gang("short", 1, 5), gang("long", 1, 15))
    assert starts_s(Load(grid("2x2"), jobs, windows).run(plan)) == {"short": 0, "long": 20}


@pytest.mark.parametrize("plan", PLANS_WITH_RESERVATIONS)
def test_job_that_waits_only_for_maintenance_gets_a_reservation(plan: str):
    """All cards are idle; only the maintenance window blocks the job."""
    job = make_trace("j", Request(gpus=1, cpu_milli=1000), 10, 5)
    result = Load(grid("1x1"), (job,), (MaintenanceWindow("w", ("n0",), 0, 100 * S),)).run(plan)
    assert result.outcomes[0].promised_us == result.outcomes[0].started_us == 100 * S


# -- late decisions ------------------------------------------------------------------------------------------------


def driver_with_two_reservations(plan: str) -> Driver:
    """``first`` holds both cards until 10 s. They are reserved for ``next`` until 20 s, then for ``last``."""
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
def test_reservations_missed_by_a_late_decision_are_renewed_at_once(plan: str, late_us: int):
    driver = driver_with_two_reservations(plan)
    now_us = 10 * S + late_us
    driver.apply(now_us, GangEnded("first", "succeeded"))
    assert [decision.job_id for decision in driver.decide(now_us)] == ["next"], "the head starts first"
    assert driver.state.timeline.reservations["last"].start_us == now_us + 10 * S
    moved = [("next", 10 * S, now_us), ("last", 20 * S, now_us + 10 * S)] if late_us else []
    assert [move[:3] for move in driver.state.delayed_starts] == moved, "both delays are reported"
    assert all("missed" in why for *_, why in driver.state.delayed_starts)
    audit(driver.state, now_us)
