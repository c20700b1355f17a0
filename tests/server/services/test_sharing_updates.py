"""Sharing parameters of jobs: at their start and after updates."""

from __future__ import annotations

import pytest

from gpusquad.model.job import Share, Slo
from gpusquad.model.sharing_params import SharingParams
from gpusquad.server.answers import JobChange
from gpusquad.server.services.runtime.tenants import TenantCache
from gpusquad.server.services.sharing.sharing_updates import SharingUpdates
from gpusquad.store import people
from gpusquad.store.people import TenantRow
from tests.server.services.world import ADA, SECOND_US, World

SHARE = {"gpus": None, "share": {"memory": "1GiB", "sm": 0.25, "isolation": "isolated"}}


@pytest.fixture
def world(tmp_path, database) -> World:
    return World(tmp_path, "1x2", database)


def set_weight(world: World, weight: float) -> None:
    with world.database.write() as c:
        people.put_tenant(c, TenantRow("default", weight=weight))
    world.scheduler.reload_tenants()


def test_launch_has_the_sharing_params_and_share_of_its_job(world: World) -> None:
    set_weight(world, 3.0)
    job_id = world.submit(**SHARE, priority="high", slo={"p99": "20ms"})
    world.settle()
    launch = world.engine.running[job_id, 0]
    assert launch.sharing_params == SharingParams(3.0, 1, Slo(latency_us=20_000), 10 * SECOND_US, 2**30)
    assert [task.share for task in launch.tasks] == [Share(2**30, 250, "isolated")]


def test_sharing_params_have_no_remaining_time_without_an_estimate(world: World) -> None:
    job_id = world.submit(**SHARE, estimate=None)
    world.settle()
    assert world.engine.running[job_id, 0].sharing_params == SharingParams(memory_bytes=2**30)


def test_update_of_a_running_job_reaches_all_its_tasks(world: World) -> None:
    job_id = world.submit(**SHARE, count=2)
    world.settle()
    world.at(4 * SECOND_US)
    world.scheduler.update(job_id, JobChange(priority="urgent", slo={"throughput": "5/s"}), ADA)
    urgent = SharingParams(1.0, 2, Slo(throughput_per_s=5.0), 6 * SECOND_US, 2**30)
    assert world.engine.changed == [(job_id, 0, 2, urgent)]


def test_update_of_a_pending_job_is_not_sent_to_the_engine(world: World) -> None:
    world.submit(gpus=2)
    pending = world.submit(gpus=2)
    world.settle()
    world.scheduler.update(pending, JobChange(priority="high"), ADA)
    assert world.engine.changed == []


def test_update_of_a_job_that_ends_meanwhile_does_not_fail(world: World) -> None:
    """The thread that sets a weight also sends it, so the job may end in between."""

    class Rows(dict):
        def __getitem__(self, job_id: str) -> object:
            raise KeyError(job_id)

    job_id = world.submit(**SHARE)
    world.settle()
    context = world.scheduler.context
    rows, context.rows = context.rows, Rows(context.rows)
    context.jobs.pop(job_id)
    SharingUpdates(context, TenantCache(world.database)).update(job_id)
    context.rows = rows
    assert [at for at, *_ in world.engine.changed] == [job_id]


def test_new_tenant_weight_is_sent_to_running_jobs(world: World) -> None:
    job_id = world.submit(**SHARE)
    world.settle()
    set_weight(world, 2.5)
    assert [(at, sharing_params.weight) for at, _, _, sharing_params in world.engine.changed] == [(job_id, 2.5)]
