"""Builds what an engine needs to start a placed job."""

from __future__ import annotations

from collections.abc import Callable

from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.ports import Launch, TaskLaunch
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.sharing_params import SharingParams
from gpusquad.server.services.runtime.records import TaskCards, seats_of
from gpusquad.spec.check import spec_from_dict
from gpusquad.spec.convert import TaskCommand, grace_s, task_commands
from gpusquad.store.jobs import JobRow

ReadSecret = Callable[[str, str], str]
"""Tenant and name to the secret's value. Raises ``Invalid`` if there is none."""


def launch_of(
    row: JobRow,
    job: Job,
    placement: Placement,
    fixed: ClusterArrays,
    *,
    simulated: bool,
    read_secret: ReadSecret,
    run_as: tuple[int, int] | None,
    sharing_params: SharingParams = SharingParams(),  # noqa: B008, it is frozen
    is_found: bool = False,
) -> Launch:
    """Every task with its command, environment and cards. ``is_found``: the tasks exist and only need their cards."""
    if not row.spec or is_found:
        return _found_launch(row, job, placement, fixed, sharing_params)
    spec = spec_from_dict(dict(row.spec))
    seats = seats_of(job, placement, fixed)
    commands = task_commands(spec, [len(part.nodes) for part in placement.parts])
    tasks = tuple(_task(rank, command, seat) for rank, (command, seat) in enumerate(zip(commands, seats, strict=True)))
    return Launch(
        job_id=row.id, attempt=row.attempt, name=row.name, tenant=row.tenant, user=row.user, tasks=tasks,
        workdir=spec.workdir, grace_s=grace_s(spec), simulated=simulated, run_as=run_as, sharing_params=sharing_params,
        secrets={secret.env_name: read_secret(row.tenant, secret.name) for secret in spec.secrets},
        is_elastic=job.is_elastic,
    )  # fmt: skip


def _found_launch(
    row: JobRow, job: Job, placement: Placement, fixed: ClusterArrays, sharing_params: SharingParams
) -> Launch:
    """Launch of a gang whose tasks exist: the engine needs only their placement."""
    tasks = tuple(
        TaskLaunch(rank, seat.role.name, seat.role_index, seat.node, seat.cards, ())
        for rank, seat in enumerate(seats_of(job, placement, fixed))
    )
    return Launch(
        row.id,
        row.attempt,
        row.name,
        row.tenant,
        row.user,
        tasks,
        workdir="",
        grace_s=0.0,
        sharing_params=sharing_params,
    )


def _task(rank: int, command: TaskCommand, seat: TaskCards) -> TaskLaunch:
    request = seat.role.request
    return TaskLaunch(
        index=rank, role=seat.role.name, role_index=seat.role_index, node=seat.node, cards=seat.cards,
        command=command.command, env=command.env, cpu_milli=request.cpu_milli, memory_bytes=request.memory_bytes,
        share=request.share,
    )  # fmt: skip
