"""An automatic mode in the service: it follows the goals, says why, is recorded and can be pinned."""

from __future__ import annotations

import pytest

from gpusquad.core import driver
from gpusquad.core.ports import PoliciesChanged
from gpusquad.model.errors import Invalid
from gpusquad.store import policy as revisions
from tests.server.services.world import ADA, SECOND_US, World

MINUTE_US, HOUR_US = 60 * SECOND_US, 3600 * SECOND_US


@pytest.fixture
def world(tmp_path, database) -> World:
    return World(tmp_path, "1x2", database)


def busy(world: World) -> str:
    """A job on all cards for a day, and one that waits behind it."""
    runs = world.submit(name="runs", gpus=2, estimate=86_400)
    world.submit(name="plain", gpus=2, estimate=600)
    world.settle()
    return runs


def chosen(world: World):
    found = world.scheduler.policy_service.status().automatic
    assert found is not None
    return found


def pass_minutes(world: World, first: int, last: int) -> None:
    for minute in range(first, last + 1):
        world.at(minute * MINUTE_US)


def test_mode_follows_the_goals_says_why_and_is_recorded(world: World) -> None:
    runs = busy(world)
    status = world.scheduler.policy_service.set({"mode": "auto"}, ADA)
    assert (status.mode, status.order, chosen(world).mode) == ("auto", "fifo", "standard")
    urgent = world.submit(name="urgent", gpus=2, estimate=600, slo={"deadline": "10h"})
    pass_minutes(world, 1, 10)
    assert (chosen(world).mode, chosen(world).next_mode, chosen(world).next_us) == ("standard", "slo", 11 * MINUTE_US)
    pass_minutes(world, 11, 11)
    status = world.scheduler.policy_service.status()
    assert (status.mode, status.order, status.divide, status.by) == ("auto", "slo", "slo", "auto")
    assert (chosen(world).mode, chosen(world).since_us, chosen(world).changes) == ("slo", 11 * MINUTE_US, 1)
    assert "1 of 3 pending and running jobs has a deadline" in chosen(world).why
    with world.database.read() as c:
        last = revisions.latest(c)
    assert last is not None
    assert (last.by, last.settings, last.note) == ("auto", {"mode": "auto", "chosen": "slo"}, chosen(world).why)
    world.engine.end(runs, 0)
    world.settle()
    assert world.state(urgent) == "running"


def test_choice_survives_a_restart_and_so_does_the_number_of_changes(world: World) -> None:
    busy(world)
    world.scheduler.policy_service.set({"mode": "auto"}, ADA)
    world.submit(name="urgent", gpus=2, estimate=600, slo={"deadline": "10h"})
    pass_minutes(world, 1, 11)
    before = chosen(world)
    world.scheduler = world.make()
    status = world.scheduler.policy_service.status()
    assert (status.automatic, status.mode, status.order) == (before, "auto", "slo")
    assert world.scheduler.context.state.policies.names["order"] == "slo"
    world.settle()
    assert chosen(world).changes == 1


def test_mode_set_by_hand_is_pinned_until_auto_is_set_again(world: World) -> None:
    busy(world)
    world.submit(name="urgent", gpus=2, estimate=600, slo={"deadline": "10h"})
    pinned = world.scheduler.policy_service.set({"mode": "fair"}, ADA)
    pass_minutes(world, 1, 30)
    assert world.scheduler.policy_service.status() == pinned
    assert (pinned.mode, pinned.automatic) == ("fair", None)
    free = world.scheduler.policy_service.set({"mode": "auto"}, ADA)
    assert (free.order, chosen(world).mode, chosen(world).changes) == ("slo", "slo", 0)
    assert world.scheduler.policy_service.set({"mode": "fifo"}, ADA).automatic is None
    world.scheduler = world.make()
    pass_minutes(world, 31, 60)
    assert world.scheduler.policy_service.status().mode == "fifo"


def test_configured_automatic_mode_is_chosen_by_without_a_setting(tmp_path, database) -> None:
    world = World(tmp_path, "1x2", database, mode="auto")
    busy(world)
    assert (chosen(world).mode, chosen(world).changes) == ("standard", 0)
    assert chosen(world).why == "no goal of the 2 pending and running jobs asks for another mode"
    world.submit(name="serve", gpus=2, estimate=600, slo={"latency": "100ms"})
    pass_minutes(world, 1, 12)
    assert (chosen(world).mode, world.scheduler.policy_service.status().mode) == ("slo", "auto")
    assert "service" in chosen(world).why
    world.setup["mode"] = "fifo"  # an automatic change is no setting by hand: the configuration still counts
    assert world.make().policy_service.status().mode == "fifo"


def test_other_settings_stay_when_the_mode_changes_by_itself(world: World) -> None:
    busy(world)
    world.scheduler.policy_service.set({"mode": "auto", "plan": "conservative"}, ADA)
    world.submit(name="urgent", gpus=2, estimate=600, slo={"deadline": "10h"})
    pass_minutes(world, 1, 11)
    status = world.scheduler.policy_service.status()
    assert (status.order, status.plan) == ("slo", "conservative")
    status = world.scheduler.policy_service.set({"preemption": {"min_run_s": 7.0}}, ADA)
    assert (status.order, status.plan, status.preemption["min_run_s"], chosen(world).mode) == (
        "slo", "conservative", 7.0, "slo",
    )  # fmt: skip


def test_preview_of_an_automatic_mode_shows_what_it_would_choose_now(world: World) -> None:
    busy(world)
    urgent = world.submit(name="urgent", gpus=2, estimate=600, slo={"deadline": "25h"})
    world.settle()
    moved = {job for job, _, _ in world.scheduler.policy_service.preview({"mode": "auto"}).moved}
    assert urgent in moved
    assert world.scheduler.policy_service.status().mode == "standard"


def test_cards_follow_the_chosen_mode_after_the_change_is_stored(world: World) -> None:
    busy(world)
    seen = []
    world.scheduler.policy_service.on_chosen = lambda: seen.append(world.scheduler.policy_service.status().revision)
    world.scheduler.policy_service.set({"mode": "auto"}, ADA)
    world.submit(name="urgent", gpus=2, estimate=600, slo={"deadline": "10h"})
    pass_minutes(world, 1, 20)
    assert seen == [2]


def test_tenant_that_changes_keeps_the_chosen_mode(world: World) -> None:
    busy(world)
    world.submit(name="urgent", gpus=2, estimate=600, slo={"deadline": "10h"})
    world.scheduler.policy_service.set({"mode": "auto"}, ADA)
    causes = []
    apply = world.scheduler.context.driver.apply
    world.scheduler.context.driver.apply = lambda now_us, event: (causes.append(event), apply(now_us, event))[1]
    world.scheduler.policy_service.tenants_changed()
    assert [event.why for event in causes if isinstance(event, PoliciesChanged)] == ["the tenants changed"]
    assert world.scheduler.context.state.policies.names["order"] == "slo"


def test_mode_that_lacks_a_lane_of_a_job_is_not_chosen_and_the_service_continues(world: World, monkeypatch) -> None:
    def lacks_the_lane(*args):
        raise Invalid("lane", "'night' does not exist")

    busy(world)
    world.scheduler.policy_service.set({"mode": "auto"}, ADA)
    world.submit(name="urgent", gpus=2, estimate=600, slo={"deadline": "10h"})
    pass_minutes(world, 1, 2)
    with monkeypatch.context() as patched:
        patched.setattr(driver, "with_policies", lacks_the_lane)
        pass_minutes(world, 3, 15)
    assert (chosen(world).mode, chosen(world).changes) == ("standard", 0)
    assert world.scheduler.policy_service.status().revision == 1
    pass_minutes(world, 16, 17)
    assert chosen(world).mode == "slo"
