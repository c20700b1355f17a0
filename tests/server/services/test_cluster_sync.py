"""Gangs that are found on cards: adopted where there is a place for them, left to others where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpusquad.core.observed import GangFound, TaskLocation
from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role, Slo
from gpusquad.model.sharing_params import SharingParams
from tests.server.services.test_cluster_submissions import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path, cluster=grid("1x2"))


@pytest.fixture
def resumed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[TaskLocation, ...]]]:
    told: list[tuple[str, tuple[TaskLocation, ...]]] = []

    def resume(job: Job, attempt: int, places: Any, has_started: bool) -> None:
        told.append((job.id, tuple(places)))

    monkeypatch.setattr(cluster.hand, "resume", resume)
    return told


def on(job_id: str, *cards: str) -> GangFound:
    job = Job(job_id, (Role("worker", 1, Request(gpus=len(cards))),), name=job_id)
    return GangFound(job, (TaskLocation("n0", cards),), 1)


def test_a_gang_is_adopted_where_it_is(cluster: Cluster, resumed: list[tuple[str, tuple[TaskLocation, ...]]]):
    cluster.tell(on("first", "n0/1"))
    assert cluster.state("first") == "running"
    assert resumed == [("first", (TaskLocation("n0", ("n0/1",)),))]


def test_a_gang_that_is_adopted_is_told_what_it_is_worth(cluster: Cluster):
    """Whoever put it there may have written down what he likes."""
    cluster.weigh(3.0)
    cluster.tell(on("first", "n0/1"))
    assert [(at, attempt, sharing_params.weight) for at, attempt, _, sharing_params in cluster.hand.changed] == [
        ("first", 0, 3.0)
    ]


def test_after_a_restart_a_gang_is_worth_what_it_was(
    cluster: Cluster, resumed: list[tuple[str, tuple[TaskLocation, ...]]]
):
    cluster.weigh(3.0)
    cluster.tell(GangFound(Job("first", (Role("worker", 1, Request(gpus=1)),), slo=Slo(deadline_us=10**9))))
    cluster.hand.changed.clear()
    cluster.make()
    [(_, [place])] = resumed
    worth = SharingParams(3.0, slo=Slo(deadline_us=10**9))
    assert place.sharing_params == worth, "pods that are made again are bound with it"
    assert cluster.hand.changed == [("first", 0, 1, worth)], "those that run may have heard otherwise meanwhile"


@pytest.mark.parametrize("card", ["n0/0", "unknown"])
def test_one_without_a_place_is_left_to_others(
    cluster: Cluster, resumed: list[tuple[str, tuple[TaskLocation, ...]]], card: str
):
    cluster.tell(on("first", "n0/0"))
    cluster.tell(on("second", card))
    assert resumed[1:] == [("second", ())]
    assert cluster.state("second") == "pending"
    assert "second" not in cluster.scheduler._context.state.queue, "nor is it placed anywhere else"
    assert cluster.scheduler.node_service.cluster().free == 1


def test_also_if_it_waited_in_the_queue(cluster: Cluster, resumed: list[tuple[str, tuple[TaskLocation, ...]]]):
    cluster.tell(on("first", "n0/0", "n0/1"))
    found = on("second", "n0/0")
    cluster.tell(GangFound(found.job))
    assert "second" in cluster.scheduler._context.state.queue
    cluster.tell(found)
    assert resumed[1:] == [("second", ())]
    assert "second" not in cluster.scheduler._context.state.queue


def test_pods_made_again_while_the_service_was_away_neither_lose_their_turn_nor_win_time(cluster: Cluster):
    cluster.tell(on("first", "n0/0", "n0/1"))
    job = Job("second", (Role("worker", 1, Request(gpus=1)),), submitted_us=5, slo=Slo(deadline_us=7))
    cluster.tell(GangFound(job))
    cluster.scheduler = cluster.make()
    cluster.tell(GangFound(replace(job, priority="high", submitted_us=105, slo=Slo(deadline_us=107))))
    assert cluster.scheduler._context.job("second") == replace(job, priority="high")
