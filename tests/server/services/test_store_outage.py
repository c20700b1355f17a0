"""A store that does not answer for a while: nothing acts before it is on record, and nothing is forgotten."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from gpusquad.server.services.runtime.loop import ServiceStopping
from gpusquad.store.database import Database, StoreUnavailable
from tests.server.services.world import ADA, World


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path, "1x2")


@pytest.fixture
def outage(monkeypatch):
    """``outage(n)``: the next n writes fail; what is done meanwhile is noted."""
    real = Database.write
    state = {"left": 0, "asked": 0, "meanwhile": lambda: None}

    @contextmanager
    def write(self):
        if state["left"]:
            state["left"] -= 1
            state["asked"] += 1
            state["meanwhile"]()
            raise StoreUnavailable("the disk is full")
        with real(self) as connection:
            yield connection

    monkeypatch.setattr(Database, "write", write)

    def begin(count: int, meanwhile=lambda: None) -> dict:
        state.update(left=count, meanwhile=meanwhile)
        return state

    return begin


def test_nothing_starts_before_it_is_on_record(world: World, outage) -> None:
    job_id = world.submit()
    seen: list[tuple[int, tuple[bool, str]]] = []
    state = outage(2, lambda: seen.append((len(world.engine.launched), world.scheduler.ready())))
    world.settle()
    assert state["asked"] == 2
    assert [launched for launched, _ in seen] == [0, 0]
    assert seen[1][1] == (False, "the store does not answer: the disk is full")
    assert world.state(job_id) == "running"
    assert len(world.engine.launched) == 1


def test_a_submission_that_could_not_be_recorded_is_refused_and_leaves_nothing(world: World, outage) -> None:
    outage(1)
    with pytest.raises(StoreUnavailable):
        world.submit(name="unlucky")
    world.settle()
    assert world.scheduler.queries.unfinished() == []
    assert world.state(world.submit(name="lucky")) == "pending"


def test_what_an_administrator_says_holds_when_it_is_on_record_and_not_before(world: World, outage) -> None:
    state = outage(2)
    card = world.scheduler.node_service.cards()[0].id
    assert world.scheduler.node_service.cordon(card, ADA, "fan").state == "cordoned"
    assert state["asked"] == 2
    assert world.make().node_service.cards()[0].state == "cordoned"
    world.scheduler._context.loop._closing = True
    outage(10**6)
    with pytest.raises(ServiceStopping):
        world.scheduler.node_service.uncordon(card)
    outage(0)
    assert world.make().node_service.cards()[0].state == "cordoned"


def test_a_service_that_stops_meanwhile_gives_up_and_the_next_one_goes_on(world: World, outage) -> None:
    job_id = world.submit()
    outage(10**6)
    world.scheduler._context.loop._closing = True
    with pytest.raises(ServiceStopping):
        world.settle()
    outage(0)
    world.scheduler = world.make()
    world.settle()
    assert world.state(job_id) == "running"
    assert len(world.engine.launched) == 1


def test_a_bug_in_a_cycle_stops_the_scheduler_and_the_store_stays_right(world: World, monkeypatch) -> None:
    told: list[str] = []
    world.scheduler.on_broken(lambda: told.append("broken"))
    job_id = world.submit()
    monkeypatch.setattr(world.scheduler._context.driver, "decide", lambda now_us: 1 / 0)
    with pytest.raises(ServiceStopping):
        world.settle()
    assert told == ["broken"]
    assert world.scheduler.ready()[0] is False
    world.scheduler = world.make()
    world.settle()
    assert world.state(job_id) == "running"
