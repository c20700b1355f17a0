"""A store that is temporarily unavailable: no action before its commit, and nothing is lost."""

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
    """``outage(n, meanwhile)``: the next n writes fail; ``meanwhile`` is called at each of them."""
    real = Database.write
    state = {"left": 0, "failed_writes": 0, "meanwhile": lambda: None}

    @contextmanager
    def write(self):
        if state["left"]:
            state["left"] -= 1
            state["failed_writes"] += 1
            state["meanwhile"]()
            raise StoreUnavailable("the disk is full")
        with real(self) as connection:
            yield connection

    monkeypatch.setattr(Database, "write", write)

    def start(count: int, meanwhile=lambda: None) -> dict:
        state.update(left=count, meanwhile=meanwhile)
        return state

    return start


def test_job_is_not_launched_before_its_start_is_stored(world: World, outage) -> None:
    job_id = world.submit()
    seen: list[tuple[int, tuple[bool, str]]] = []
    state = outage(2, lambda: seen.append((len(world.engine.launched), world.scheduler.ready())))
    world.settle()
    assert state["failed_writes"] == 2
    assert [launched for launched, _ in seen] == [0, 0]
    assert seen[1][1] == (False, "the store does not answer: the disk is full")
    assert world.state(job_id) == "running"
    assert len(world.engine.launched) == 1


def test_submission_is_refused_without_a_job_when_the_store_fails(world: World, outage) -> None:
    outage(1)
    with pytest.raises(StoreUnavailable):
        world.submit(name="unlucky")
    world.settle()
    assert world.scheduler.queries.unfinished() == []
    assert world.state(world.submit(name="lucky")) == "pending"


def test_cordon_applies_once_it_is_stored_and_not_before(world: World, outage) -> None:
    state = outage(2)
    card = world.scheduler.node_service.cards()[0].id
    assert world.scheduler.node_service.cordon(card, ADA, "fan").state == "cordoned"
    assert state["failed_writes"] == 2
    assert world.make().node_service.cards()[0].state == "cordoned"
    world.scheduler._context.loop._closing = True
    outage(10**6)
    with pytest.raises(ServiceStopping):
        world.scheduler.node_service.uncordon(card)
    outage(0)
    assert world.make().node_service.cards()[0].state == "cordoned"


def test_job_starts_after_a_service_stop_during_an_outage(world: World, outage) -> None:
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


def test_exception_in_a_cycle_stops_the_scheduler_and_keeps_the_store_valid(world: World, monkeypatch) -> None:
    calls: list[str] = []
    world.scheduler.on_broken(lambda: calls.append("broken"))
    job_id = world.submit()
    monkeypatch.setattr(world.scheduler._context.driver, "decide", lambda now_us: 1 / 0)
    with pytest.raises(ServiceStopping):
        world.settle()
    assert calls == ["broken"]
    assert world.scheduler.ready()[0] is False
    world.scheduler = world.make()
    world.settle()
    assert world.state(job_id) == "running"
