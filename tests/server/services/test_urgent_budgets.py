"""Budgets of urgent GPU-hours."""

from __future__ import annotations

import pytest

from gpusquad.model.priority import is_above_high
from gpusquad.server.answers import JobChange, Who
from gpusquad.server.errors import Forbidden
from gpusquad.server.services.jobs.urgent_budgets import CHECK_US
from gpusquad.server.services.usage.urgent_hours import falls_below_us, used_hours
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from gpusquad.store import attempts, events, people
from gpusquad.store.attempts import AttemptRow
from gpusquad.store.errors import StoreUnavailable
from gpusquad.store.people import TenantRow, UserRow
from tests.server.services.world import ADA, World, last_cause

MEMBER = Who("ann", "default", "member", frozenset({"read", "submit"}))
HOUR_US = 3600 * 10**6
DAY_US = 24 * HOUR_US


@pytest.fixture
def world(tmp_path) -> World:
    world = World(tmp_path, "1x2")
    with world.database.write() as c:
        people.put_user(c, UserRow("ada", "default", "admin"))
        people.put_user(c, UserRow("ann", "default", "member"))
    set_budget(world, 10.0)
    return world


def set_budget(world: World, hours: float | None) -> None:
    with world.database.write() as c:
        people.put_tenant(c, TenantRow("default", max_priority="2000000", urgent_gpu_hours=hours))
    world.scheduler.reload_tenants()


def used(world: World) -> float:
    with world.database.read() as c:
        return used_hours(c, world.clock.at_us).get("default", 0.0)


def warnings(world: World, job: str) -> list[str]:
    with world.database.read() as c:
        return [event.cause for event in events.of_job(c, job) if event.kind == "warned"]


def spend(world: World) -> str:
    """A job that used up the budget and still runs."""
    job = world.submit(MEMBER, gpus=2, priority="urgent", estimate=10**6)
    world.settle()
    world.at(5 * HOUR_US)
    return job


@pytest.mark.parametrize(
    ("priority", "is_above"),
    [("low", False), ("high", False), ("1000", False), ("1001", True), ("urgent", True), ("very", False)],
)
def test_priorities_above_high_are_urgent(priority: str, is_above: bool) -> None:
    assert is_above_high(priority) is is_above


def test_running_jobs_count_up_to_now_by_the_cards_they_hold(world: World) -> None:
    world.submit(MEMBER, priority="1001")
    world.submit(MEMBER, gpus=None, share={"memory": "6GiB", "sm": "25%"}, priority="urgent")
    world.settle()
    world.at(2 * HOUR_US)
    assert used(world) == pytest.approx(2 * 1.25)


def test_priorities_up_to_high_do_not_count(world: World) -> None:
    world.submit(MEMBER, priority="high")
    world.submit(MEMBER, priority="normal")
    world.settle()
    world.at(HOUR_US)
    assert used(world) == 0.0


def test_raised_running_job_counts_from_then_to_its_end(world: World) -> None:
    job = world.submit(MEMBER, name="job", estimate=10**6)
    world.engine.run_us["job"] = 4 * HOUR_US
    world.settle()
    world.at(HOUR_US)
    world.scheduler.update(job, JobChange(priority="urgent"), MEMBER)
    world.at(2 * HOUR_US)
    world.scheduler.update(job, JobChange(priority="normal"), MEMBER)
    world.at(4 * HOUR_US)
    world.at(9 * HOUR_US)
    assert used(world) == pytest.approx(3.0)


def test_refusal_has_field_cause_and_cure(world: World) -> None:
    spend(world)
    with pytest.raises(Forbidden) as refused:
        world.submit(MEMBER, priority="urgent")
    assert (refused.value.status, refused.value.field) == (403, "priority")
    assert refused.value.message == (
        "urgent is above high, and tenant default has used 10.0 of its 10 urgent GPU-hours of the last 30 days"
    )
    assert refused.value.cure == (
        "use priority high, wait until 1970-01-31 01:00 UTC or later, "
        "or ask an administrator to run gpusquad tenant set default --urgent-hours N"
    )


def test_budget_of_zero_refuses_without_a_time(world: World) -> None:
    set_budget(world, 0.0)
    with pytest.raises(Forbidden) as refused:
        world.submit(MEMBER, priority="1001")
    assert refused.value.cure.startswith("use priority high, or ask")
    world.submit(MEMBER, priority="high")


def test_job_is_accepted_while_the_budget_is_not_used_up(world: World) -> None:
    world.submit(MEMBER, gpus=2, priority="urgent", estimate=10**6)
    world.settle()
    world.at(5 * HOUR_US - 1)
    world.submit(MEMBER, priority="urgent")
    world.at(5 * HOUR_US)
    with pytest.raises(Forbidden):
        world.submit(MEMBER, priority="urgent")
    set_budget(world, None)
    world.submit(MEMBER, priority="urgent")


def test_use_older_than_the_window_does_not_count(world: World) -> None:
    job = spend(world)
    world.engine.end(job, 0)
    world.at(5 * HOUR_US)
    world.at(30 * DAY_US)
    with pytest.raises(Forbidden):
        world.submit(MEMBER, priority="urgent")
    world.at(30 * DAY_US + HOUR_US)
    assert used(world) == pytest.approx(8.0)
    world.submit(MEMBER, priority="urgent")


def test_time_of_the_next_use_is_when_enough_has_left_the_window(world: World) -> None:
    with world.database.write() as c:
        for number in range(3):
            start_us = number * DAY_US
            attempts.open(c, AttemptRow(f"01{number}", 0, "default", "ann", start_us, start_us + 4 * HOUR_US, 1000,
                                        urgent_from_us=start_us))  # fmt: skip
    with world.database.read() as c:
        now_us = 3 * DAY_US
        assert falls_below_us(c, "default", 13.0, now_us) == now_us
        assert falls_below_us(c, "default", 12.0, now_us) == 30 * DAY_US + HOUR_US
        assert falls_below_us(c, "default", 8.0, now_us) == 31 * DAY_US + HOUR_US
        assert falls_below_us(c, "default", 0.0, now_us) is None
        assert falls_below_us(c, "other", 1.0, now_us) == now_us


def test_one_point_of_a_sweep_over_the_budget_refuses_all(world: World) -> None:
    spend(world)
    with pytest.raises(Forbidden):
        world.submit(MEMBER, priority="${p}", sweep={"p": ["normal", "urgent"]})
    assert len(world.scheduler.context.rows) == 1


def test_what_if_over_the_budget_is_refused(world: World) -> None:
    spend(world)
    (spec,) = expand(check({"command": "x", "gpus": 1, "estimate": 1, "priority": "urgent"}))
    with pytest.raises(Forbidden, match="urgent GPU-hours"):
        world.scheduler.queries.what_if(spec, MEMBER)
    world.scheduler.queries.what_if(spec, ADA)


def test_update_over_the_budget_changes_nothing(world: World) -> None:
    running = spend(world)
    pending = world.submit(MEMBER, name="old")
    for change in (JobChange(priority="urgent", name="new"), JobChange(priority="1001", name="new")):
        with pytest.raises(Forbidden, match="urgent GPU-hours"):
            world.scheduler.update(pending, change, MEMBER)
    assert world.scheduler.row(pending).name == "old"
    assert world.scheduler.update(pending, JobChange(priority="high"), MEMBER).priority == "high"
    with pytest.raises(Forbidden, match="urgent GPU-hours"):
        world.scheduler.update(running, JobChange(priority="2000000"), MEMBER)
    assert world.scheduler.update(running, JobChange(priority="urgent", name="new"), MEMBER).name == "new"
    assert world.scheduler.update(running, JobChange(priority="1001"), MEMBER).priority == "1001"


def test_maximum_is_reported_before_the_budget(world: World) -> None:
    with world.database.write() as c:
        people.put_tenant(c, TenantRow("default", urgent_gpu_hours=0.0))
    world.scheduler.reload_tenants()
    job = world.submit(MEMBER)
    with pytest.raises(Forbidden, match="above your maximum"):
        world.submit(MEMBER, priority="urgent")
    with pytest.raises(Forbidden, match="above your maximum"):
        world.scheduler.update(job, JobChange(priority="urgent"), MEMBER)


def test_jobs_of_administrators_are_accepted_and_counted(world: World) -> None:
    world.submit(ADA, gpus=2, priority="urgent", estimate=10**6)
    world.settle()
    world.at(6 * HOUR_US)
    assert used(world) == pytest.approx(12.0)
    world.submit(ADA, priority="urgent")
    with pytest.raises(Forbidden, match=r"used 12\.0 of its 10"):
        world.submit(MEMBER, priority="urgent")


def test_pending_jobs_are_lowered_when_the_budget_is_used_up(world: World) -> None:
    running = world.submit(MEMBER, gpus=2, priority="urgent", estimate=10**6)
    pending, waiting, high = (
        world.submit(MEMBER, gpus=2, priority="urgent"),
        world.submit(MEMBER, gpus=2, priority="2000", after=[running]),
        world.submit(MEMBER, gpus=2, priority="high"),
    )
    others = world.submit(ADA, gpus=2, priority="urgent")
    raised = world.submit(MEMBER, gpus=2)
    world.settle()
    world.scheduler.update(raised, JobChange(priority="urgent"), ADA)
    world.at(5 * HOUR_US - 1)
    assert world.scheduler.row(pending).priority == "urgent"
    world.at(5 * HOUR_US - 1 + CHECK_US)
    priorities = [world.scheduler.row(job).priority for job in (running, pending, waiting, high, others, raised)]
    assert priorities == ["urgent", "high", "high", "high", "urgent", "urgent"]
    assert world.scheduler.context.job(pending).priority == "high"
    assert world.state(running) == "running"
    assert last_cause(world, running) == ""
    (warning,) = warnings(world, pending)
    assert warning.startswith(
        "priority urgent was lowered to high, because tenant default has used 10.0 of its 10 urgent GPU-hours"
    )
    queue = [entry.job_id for entry in world.scheduler.queries.queue()]
    assert queue.index(pending) > queue.index(others)


def test_lowered_job_stays_high_until_it_is_raised_again(world: World) -> None:
    world.submit(MEMBER, gpus=2, priority="urgent", estimate=10**6)
    pending = world.submit(MEMBER, gpus=2, priority="urgent")
    world.settle()
    world.at(5 * HOUR_US)
    assert world.scheduler.row(pending).priority == "high"
    with pytest.raises(Forbidden):
        world.scheduler.update(pending, JobChange(priority="urgent"), MEMBER)
    world.scheduler.update(pending, JobChange(priority="urgent"), ADA)
    world.at(5 * HOUR_US + CHECK_US)
    assert world.scheduler.row(pending).priority == "urgent", "set by an administrator"
    world.scheduler.update(pending, JobChange(priority="high"), MEMBER)
    set_budget(world, 20.0)
    assert world.scheduler.update(pending, JobChange(priority="urgent"), MEMBER).priority == "urgent"
    set_budget(world, 10.0)
    world.settle()
    assert world.scheduler.row(pending).priority == "high", "the last choice was the member's"


def test_pending_jobs_are_lowered_after_a_restart(world: World) -> None:
    world.submit(MEMBER, gpus=2, priority="urgent", estimate=10**6)
    pending = world.submit(MEMBER, gpus=2, priority="urgent")
    world.settle()
    world.clock.at_us = 5 * HOUR_US
    world.scheduler = world.make()
    world.settle()
    assert world.scheduler.row(pending).priority == "high"
    assert world.scheduler.context.job(pending).priority == "high"


def test_last_check_applies_while_the_store_does_not_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    spend(world)
    budgets = world.scheduler._budgets

    def fail() -> None:
        raise StoreUnavailable("gone")

    world.clock.at_us += CHECK_US
    with monkeypatch.context() as patch:
        patch.setattr(world.database, "read", fail)
        budgets.refresh()
        assert budgets.spent("default") is not None
    set_budget(world, 20.0)
    assert budgets.spent("default") is None
