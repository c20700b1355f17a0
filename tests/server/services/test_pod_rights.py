"""Priorities and lanes that tenants write on their pods."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpusquad.core.observed import GangFound, TaskLocation
from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role
from gpusquad.server.answers import JobChange, Who
from gpusquad.server.services.jobs.urgent_budgets import CHECK_US
from gpusquad.server.services.usage.urgent_hours import used_hours
from gpusquad.store import events, people
from gpusquad.store.people import TenantRow, UserRow
from tests.server.services.test_cluster_submissions import Cluster
from tests.server.services.world import ADA

PODS = Job("job", (Role("worker", 1, Request(gpus=1)),), name="job", tenant="nlp")


@pytest.fixture
def granted() -> dict[str, str]:
    """Priority classes that the cluster grants, by job."""
    return {}


@pytest.fixture
def cluster(tmp_path: Path, granted: dict[str, str]) -> Cluster:
    cluster = Cluster(tmp_path, cluster=grid("1x2"), cluster_priority=lambda job_id: granted.get(job_id, "normal"))
    cluster.report(GangFound(Job("first", (Role("worker", 2, Request(gpus=1)),), name="first")))  # takes all cards
    return cluster


def set_rights(cluster: Cluster, **rights: Any) -> None:
    with cluster.database.write() as c:
        people.put_tenant(c, TenantRow("nlp", **rights))
    cluster.scheduler.reload_tenants()


def seen(cluster: Cluster, job_id: str = "job") -> tuple[str, str]:
    """Priority and lane, in the store and in the scheduler."""
    row, job = cluster.scheduler.row(job_id), cluster.scheduler.context.job(job_id)
    assert (row.priority, row.lane) == (job.priority, job.lane)
    return row.priority, row.lane


def warnings(cluster: Cluster, job_id: str = "job") -> list[str]:
    with cluster.database.read() as c:
        return [event.cause for event in events.of_job(c, job_id) if event.kind == "warned"]


def test_annotations_without_the_right_are_lowered_with_a_warning(cluster: Cluster) -> None:
    cluster.report(GangFound(replace(PODS, priority="urgent", lane="large")))
    assert seen(cluster) == ("normal", "")
    (warning,) = warnings(cluster)
    assert "priority urgent is above the maximum of tenant nlp, which is normal" in warning
    assert "gpusquad tenant set nlp --max-priority urgent" in warning
    assert "lane large is ignored" in warning
    assert "gpusquad tenant set nlp --may-choose-lane yes" in warning


@pytest.mark.parametrize(
    ("rights", "asked", "expected"),
    [
        ({}, "low", "low"), ({}, "normal", "normal"), ({}, "high", "normal"),
        ({"max_priority": "high"}, "high", "high"),
        ({"max_priority": "high"}, "urgent", "high"), ({"max_priority": "urgent"}, "urgent", "urgent"),
        ({"max_priority": "low"}, "normal", "low"),
        ({}, "1", "normal"), ({"max_priority": "70"}, "urgent", "70"), ({"max_priority": "70"}, "69", "69"),
    ],
)  # fmt: skip
def test_priority_is_at_most_that_of_the_tenant(cluster: Cluster, rights: dict, asked: str, expected: str) -> None:
    set_rights(cluster, **rights)
    cluster.report(GangFound(replace(PODS, priority=asked)))
    assert seen(cluster) == (expected, "")
    assert len(warnings(cluster)) == (asked != expected)


def test_lane_of_a_tenant_with_the_right_is_kept(cluster: Cluster) -> None:
    set_rights(cluster, may_choose_lane=True)
    cluster.report(GangFound(replace(PODS, lane="large")))
    assert seen(cluster) == ("normal", "large")
    assert warnings(cluster) == []


@pytest.mark.parametrize(
    ("of_class", "asked", "expected"),
    [
        ("urgent", "urgent", "urgent"),
        ("high", "high", "high"),
        ("high", "urgent", "high"),
        ("low", "urgent", "normal"),
        ("70", "urgent", "70"),
        ("2000000", "2000000", "2000000"),
    ],
)
def test_priority_class_of_the_cluster_is_a_right(
    cluster: Cluster, granted: dict[str, str], of_class: str, asked: str, expected: str
) -> None:
    granted["job"] = of_class
    cluster.report(GangFound(replace(PODS, priority=asked)))
    assert seen(cluster) == (expected, "")


def test_named_user_gives_no_rights(cluster: Cluster) -> None:
    set_rights(cluster)
    with cluster.database.write() as c:
        people.put_user(c, UserRow("boss", "nlp", "admin", max_priority="urgent"))
    cluster.report(GangFound(replace(PODS, user="boss", priority="urgent")))
    assert seen(cluster) == ("normal", "")


def test_changed_annotations_of_pending_pods_are_restricted_too(cluster: Cluster) -> None:
    cluster.report(GangFound(PODS))
    for _ in range(2):
        cluster.report(GangFound(replace(PODS, priority="urgent", lane="large")))
    assert seen(cluster) == ("normal", "")
    assert len(warnings(cluster)) == 1, "the same annotations are reported once"
    cluster.report(GangFound(replace(PODS, priority="high")))
    assert len(warnings(cluster)) == 2


def test_update_by_an_administrator_outlives_changes_and_restarts(cluster: Cluster) -> None:
    cluster.report(GangFound(PODS))
    cluster.scheduler.update("job", JobChange(priority="high", lane="large"), ADA)
    cluster.report(GangFound(replace(PODS, priority="high", lane="large")))  # the annotations of the update
    assert seen(cluster) == ("high", "large")
    cluster.scheduler = cluster.make()
    cluster.report(GangFound(replace(PODS, priority="high", lane="large", queue="night")))
    assert seen(cluster) == ("high", "large")
    assert warnings(cluster) == []
    cluster.report(GangFound(replace(PODS, priority="urgent", lane="small")))
    assert seen(cluster) == ("high", "large")
    cluster.report(GangFound(replace(PODS, priority="low")))
    cluster.report(GangFound(replace(PODS, priority="high")))
    assert seen(cluster) == ("normal", ""), "the user gave the priority up"


def test_running_pods_are_restricted_when_they_are_found(cluster: Cluster) -> None:
    cluster.engine.end("first", 0)
    cluster.settle()
    cluster.report(GangFound(replace(PODS, priority="urgent"), (TaskLocation("n0", ("n0/0",)),), 1))
    assert (cluster.state("job"), seen(cluster)) == ("running", ("normal", ""))


@pytest.mark.parametrize(
    ("most", "asked", "expected", "reason"),
    [
        ("urgent", "urgent", "high", "tenant nlp has used 0.0 of its 0 urgent GPU-hours of the last 30 days"),
        ("urgent", "2000000", "high", "--urgent-hours N"),
        ("70", "urgent", "70", "--max-priority urgent"),
        ("urgent", "high", "high", ""),
    ],
)
def test_priority_of_pods_is_lowered_to_high_when_the_budget_is_used_up(
    cluster: Cluster, most: str, asked: str, expected: str, reason: str
) -> None:
    set_rights(cluster, max_priority=most, urgent_gpu_hours=0.0)
    cluster.report(GangFound(replace(PODS, priority=asked)))
    assert seen(cluster) == (expected, "")
    assert len(warnings(cluster)) == bool(reason)
    assert reason in "".join(warnings(cluster))


def test_priority_class_of_the_cluster_is_not_lowered_by_a_budget(cluster: Cluster, granted: dict[str, str]) -> None:
    granted["job"] = "2000"
    set_rights(cluster, max_priority="urgent")
    cluster.report(GangFound(replace(PODS, priority="urgent")))
    assert seen(cluster) == ("urgent", "")
    set_rights(cluster, max_priority="urgent", urgent_gpu_hours=0.0)
    cluster.settle()
    assert seen(cluster) == ("2000", "")
    cluster.report(GangFound(replace(PODS, priority="urgent", queue="night")))
    assert seen(cluster) == ("2000", "")


def test_pending_pods_are_lowered_whatever_user_they_name_and_raised_with_the_budget(cluster: Cluster) -> None:
    set_rights(cluster, max_priority="urgent")
    with cluster.database.write() as c:
        people.put_user(c, UserRow("boss", "nlp", "admin"))
    pods = replace(PODS, user="boss", priority="urgent")
    cluster.report(GangFound(pods))
    set_rights(cluster, max_priority="urgent", urgent_gpu_hours=0.0)
    cluster.settle()
    assert seen(cluster) == ("high", "")
    assert "priority urgent was lowered to high" in warnings(cluster)[0]
    cluster.scheduler.update("job", JobChange(priority="urgent"), Who("boss", "nlp", "admin"))
    cluster.clock.at_us += CHECK_US
    cluster.settle()
    assert seen(cluster) == ("urgent", ""), "set by an administrator"
    cluster.report(GangFound(replace(pods, priority="low")))
    cluster.report(GangFound(pods))
    assert seen(cluster) == ("high", "")
    set_rights(cluster, max_priority="urgent", urgent_gpu_hours=1.0)
    cluster.report(GangFound(replace(pods, queue="night")))
    assert seen(cluster) == ("urgent", "")


def test_lowered_job_that_was_submitted_here_is_noted_on_its_objects(cluster: Cluster) -> None:
    set_rights(cluster, max_priority="urgent")
    ann = Who("ann", "nlp", "member", max_priority="urgent")
    job = cluster.submit(ann, priority="urgent", image="x")
    set_rights(cluster, max_priority="urgent", urgent_gpu_hours=0.0)
    cluster.settle()
    assert seen(cluster, job) == ("high", "")
    assert [(job_id, noted.priority) for job_id, noted in cluster.maker.noted] == [(job, "high")]


def test_running_pods_count_from_their_start(cluster: Cluster, granted: dict[str, str]) -> None:
    cluster.engine.end("first", 0)
    set_rights(cluster, max_priority="urgent", urgent_gpu_hours=5.0)
    cluster.clock.at_us = 3 * 3600 * 10**6
    cluster.report(GangFound(replace(PODS, priority="urgent"), (TaskLocation("n0", ("n0/0",)),), 3600 * 10**6))
    with cluster.database.read() as c:
        assert used_hours(c, cluster.clock.at_us) == {"nlp": pytest.approx(2.0)}


def test_jobs_submitted_here_keep_the_rights_of_their_user(cluster: Cluster) -> None:
    job = cluster.submit(priority="urgent", lane="large", image="x")
    assert seen(cluster, job) == ("urgent", "large")
    found = cluster.scheduler.context.job(job)
    cluster.report(GangFound(replace(found, priority="urgent", lane="large", queue="x")))
    assert seen(cluster, job) == ("urgent", "large")
    assert warnings(cluster, job) == []
