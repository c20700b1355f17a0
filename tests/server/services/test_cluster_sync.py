"""Gangs found running on the cluster: adopted if their cards are free, otherwise not scheduled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpusquad.core.observed import ClusterObserved, GangFound, TaskLocation
from gpusquad.core.ports import AttemptEnded, Launch
from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role, Slo
from gpusquad.model.sharing_params import SharingParams
from gpusquad.server.notify.feed import NoticeFeed
from gpusquad.store import attempts, events, inbox, people
from gpusquad.store.people import TenantRow, UserRow
from tests.server.services.test_cluster_submissions import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path, cluster=grid("1x2"))


@pytest.fixture
def resumed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[TaskLocation, ...]]]:
    calls: list[tuple[str, tuple[TaskLocation, ...]]] = []

    def resume(job: Job, attempt: int, places: Any, has_started: bool) -> None:
        calls.append((job.id, tuple(places)))

    monkeypatch.setattr(cluster.engine, "resume", resume)
    return calls


def found_on(job_id: str, *cards: str) -> GangFound:
    job = Job(job_id, (Role("worker", 1, Request(gpus=len(cards))),), name=job_id)
    return GangFound(job, (TaskLocation("n0", cards),), 1)


def set_rights(cluster: Cluster, **rights: Any) -> None:
    with cluster.database.write() as c:
        people.put_tenant(c, TenantRow("default", **rights))
    cluster.scheduler.reload_tenants()


def test_found_gang_is_adopted_on_its_cards(cluster: Cluster, resumed: list[tuple[str, tuple[TaskLocation, ...]]]):
    cluster.report(found_on("first", "n0/1"))
    assert cluster.state("first") == "running"
    assert resumed == [("first", (TaskLocation("n0", ("n0/1",)),))]


def test_adopted_gang_gets_the_weight_of_its_tenant(cluster: Cluster):
    """Its pods may carry parameters that the scheduler did not write."""
    cluster.set_weight(3.0)
    cluster.report(found_on("first", "n0/1"))
    assert [(at, attempt, sharing_params.weight) for at, attempt, _, sharing_params in cluster.engine.changed] == [
        ("first", 0, 3.0)
    ]


def test_sharing_params_are_restored_and_sent_again_after_a_restart(
    cluster: Cluster, resumed: list[tuple[str, tuple[TaskLocation, ...]]]
):
    cluster.set_weight(3.0)
    cluster.report(GangFound(Job("first", (Role("worker", 1, Request(gpus=1)),), slo=Slo(deadline_us=10**9))))
    cluster.engine.changed.clear()
    cluster.make()
    [(_, [location])] = resumed
    sharing_params = SharingParams(3.0, slo=Slo(deadline_us=10**9))
    assert location.sharing_params == sharing_params, "recreated pods are bound with these parameters"
    assert cluster.engine.changed == [("first", 0, 1, sharing_params)], "running pods may have other parameters by now"


@pytest.mark.parametrize("card", ["n0/0", "unknown"])
def test_found_gang_is_not_scheduled_when_its_card_is_taken_or_unknown(
    cluster: Cluster, resumed: list[tuple[str, tuple[TaskLocation, ...]]], card: str
):
    cluster.report(found_on("first", "n0/0"))
    cluster.report(found_on("second", card))
    assert resumed[1:] == [("second", ())]
    assert cluster.state("second") == "pending"
    assert "second" not in cluster.scheduler._context.state.queue, "it must not be placed elsewhere"
    assert cluster.scheduler.node_service.cluster().free == 1


def test_pending_gang_leaves_the_queue_when_found_on_a_taken_card(
    cluster: Cluster, resumed: list[tuple[str, tuple[TaskLocation, ...]]]
):
    cluster.report(found_on("first", "n0/0", "n0/1"))
    found = found_on("second", "n0/0")
    cluster.report(GangFound(found.job))
    assert "second" in cluster.scheduler._context.state.queue
    cluster.report(found)
    assert resumed[1:] == [("second", ())]
    assert "second" not in cluster.scheduler._context.state.queue


def test_pods_recreated_during_a_restart_keep_submit_time_and_deadline(cluster: Cluster):
    set_rights(cluster, max_priority="high")
    cluster.report(found_on("first", "n0/0", "n0/1"))
    job = Job("second", (Role("worker", 1, Request(gpus=1)),), submitted_us=5, slo=Slo(deadline_us=7))
    cluster.report(GangFound(job))
    cluster.scheduler = cluster.make()
    cluster.report(GangFound(replace(job, priority="high", submitted_us=105, slo=Slo(deadline_us=107))))
    assert cluster.scheduler._context.job("second") == replace(job, priority="high")


@pytest.mark.parametrize(
    ("owner", "expected"), [("ann", {"ann"}), ("default", {"ann", "bob"}), ("eve", {"ann", "bob"})]
)
def test_users_of_the_namespace_get_notices_of_adopted_pods(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, owner: str, expected: set[str]
):
    """Without an annotation, the user of a pod is its namespace. It may also name somebody of another tenant."""
    with cluster.database.write() as c:
        people.put_tenant(c, TenantRow("nlp"))
        for name, tenant in (("ann", "default"), ("bob", "default"), ("eve", "nlp")):
            people.put_user(c, UserRow(name, tenant))
    feed = NoticeFeed(cluster.database)
    feed.step()
    monkeypatch.setattr(cluster.engine, "resume", lambda *_: None)
    found = found_on("first", "n0/1")
    cluster.report(replace(found, job=replace(found.job, tenant="default", user=owner)))
    cluster.engine.report(AttemptEnded("first", 0, "failed", "pod worker-0 ended with exit code 1"))
    cluster.settle()
    while feed.step():
        pass
    with cluster.database.read() as c:
        found_titles = {name: [row.title for row in inbox.page(c, name).items] for name in ("ann", "bob", "eve")}
    assert {name for name, titles in found_titles.items() if titles} == expected
    assert found_titles["ann"] == ["first has failed"]


def test_nothing_starts_on_a_card_in_the_pass_that_hears_of_its_fault(cluster: Cluster):
    """After a restart of the service, the node's agent reports its faults first of all."""
    cluster.engine.report(ClusterObserved(broken={"n0/0": ("Xid 79", "card")}))  # type: ignore[operator]
    cluster.report(GangFound(Job("first", (Role("worker", 1, Request(gpus=2)),))))
    assert cluster.state("first") == "pending"
    assert cluster.engine.launched == []


def test_refused_start_is_no_attempt(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    """The job starts again at once, as often as the cluster changes, without a loss or a delay."""
    begin = cluster.engine.launch

    def launch(launch: Launch) -> None:
        if launch.attempt == 4:
            begin(launch)
        else:
            why = "node n0 is no longer allowed for it"
            cluster.engine.report(  # type: ignore[operator]
                AttemptEnded(launch.job_id, launch.attempt, "lost", why, never_started=True, is_refused=True)
            )

    monkeypatch.setattr(cluster.engine, "launch", launch)
    cluster.report(GangFound(Job("first", (Role("worker", 1, Request(gpus=1)),))))
    row = cluster.scheduler.row("first")
    assert (row.state, row.attempt, row.losses or []) == ("running", 4, [])
    with cluster.database.read() as c:
        assert [each.attempt for each in attempts.of_job(c, "first")] == [4]
        assert {event.kind for event in events.of_job(c, "first")} == {"pending", "starting", "requeued", "running"}
