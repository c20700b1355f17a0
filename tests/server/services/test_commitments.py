"""The service keeps a reservation although later jobs run longer than estimated, also over restarts."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush

import pytest

from gpusquad.model.reasons import ReasonCode
from gpusquad.server.services.runtime.observer import Observer
from gpusquad.store import people
from gpusquad.store.people import TenantRow
from tests.server.services.world import ADA, SECOND_US, World

ESTIMATE_S, RUN_S, FIRST_S = 300, 1200, 600


@pytest.fixture(params=["standard", "fifo", "fair"])
def world(request, tmp_path) -> World:
    return World(tmp_path, "1x8", mode=request.param)


def play(world: World, until_s: int, restart_every: int = 0) -> None:
    """Submit one liar a second for two minutes, and go on until then, from event to event."""
    arrivals = [(2 + i) * SECOND_US for i in range(120)]
    passes, times = 0, list(arrivals)
    while times and times[0] <= until_s * SECOND_US:
        at_us = heappop(times)
        if at_us in arrivals:
            world.clock.at_us = at_us
            world.submit(name="liar", gpus=2, estimate=ESTIMATE_S)
        world.at(at_us)
        passes += 1
        if restart_every and passes % restart_every == 0:
            world.scheduler = world.make()
            for job_id, attempt in world.engine.recovered:
                assert (job_id, attempt) in world.engine.running
            world.settle()
        end_us = world.engine.next_end_us()
        if end_us is not None and end_us not in times:
            heappush(times, max(end_us, at_us + 1))


def start(world: World) -> tuple[str, str]:
    world.engine.run_us = {"ahead": FIRST_S * SECOND_US, "liar": RUN_S * SECOND_US, "head": 100 * SECOND_US}
    ahead = world.submit(name="ahead", gpus=6, estimate=FIRST_S)
    world.at(0)
    world.clock.at_us = SECOND_US
    head = world.submit(name="head", gpus=8, estimate=100)
    world.at(SECOND_US)
    return ahead, head


@pytest.mark.parametrize("restart_every", [0, 40])
def test_head_is_late_by_one_overrun(world: World, restart_every: int) -> None:
    _, head = start(world)
    play(world, FIRST_S + RUN_S, restart_every)
    row = world.scheduler.row(head)
    assert row.started_us is not None
    assert row.started_us <= (FIRST_S + RUN_S - ESTIMATE_S) * SECOND_US
    before = [name for at_us, name, _, _ in world.engine.launched if at_us < row.started_us]
    assert before == ["ahead", "liar"]


def test_why_names_the_guest_that_overstayed_and_its_owner(world: World) -> None:
    _, head = start(world)
    play(world, FIRST_S + 60)
    reasons = world.scheduler.queries.why(head).reasons
    reason = next(r for r in reasons if r.code == ReasonCode.OVERSTAYED)
    assert "of ada (tenant default) was backfilled for 5m and has run for" in reason.message


def test_true_delay_of_the_head_is_observed(tmp_path) -> None:
    class Delays(Observer):
        def __init__(self) -> None:
            self.seen_s: list[float] = []

        def head_started(self, delay_s: float) -> None:
            self.seen_s.append(delay_s)

    delays = Delays()
    world = World(tmp_path, "1x8", mode="fifo", observer=delays)
    start(world)
    play(world, FIRST_S + RUN_S)
    assert delays.seen_s[0] == 2 + RUN_S - FIRST_S


@pytest.mark.parametrize("restart_every", [0, 3])
def test_reserved_head_of_a_heavy_tenant_is_not_passed_in_turns(tmp_path, restart_every: int) -> None:
    """Jobs of a light tenant come after its reservation was made."""
    world = World(tmp_path, "1x8", mode="fair")
    with world.database.write() as c:
        for name in ("heavy", "light"):
            people.put_tenant(c, TenantRow(name))
    world.scheduler = world.make()
    heavy, light = replace(ADA, tenant="heavy"), replace(ADA, tenant="light")
    world.engine.run_us = dict.fromkeys(("before", "head", "light"), FIRST_S * SECOND_US)
    world.submit(heavy, name="before", gpus=8, estimate=FIRST_S)
    world.at(0)
    head = world.submit(heavy, name="head", gpus=8, estimate=FIRST_S)
    world.at(SECOND_US)
    for i in range(12):
        world.clock.at_us = (500 + i) * SECOND_US
        world.submit(light, name="light", gpus=4, estimate=FIRST_S)
        world.at(world.clock.at_us)
        if restart_every and i % restart_every == 0:
            world.scheduler = world.make()
            for job_id, attempt in world.engine.recovered:
                assert (job_id, attempt) in world.engine.running
            world.settle()
    state = world.scheduler._context.state
    assert (state.queue.at(0).job.id, state.places_us) == (head, {head: SECOND_US})
    world.at(FIRST_S * SECOND_US)
    assert world.state(head) in ("starting", "running")
