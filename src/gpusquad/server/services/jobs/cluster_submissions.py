"""Jobs submitted here that run as cluster objects: created there, then found like any other gang.

The cluster is the authority on what exists, so nothing is stored before the gang is found. What pods cannot carry
(above all the job file) is kept as *expected*, under the id by which the gang will be found, before the first object is
created. The handler of the found gang takes it from here. If the service ends in between, the job is found like one
created by another client.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpusquad.core.job_objects import JobObjectCreator, JobObjectRequest, TaskProgram
from gpusquad.model.codec import job_to_dict
from gpusquad.model.job import Job
from gpusquad.server.errors import Unavailable
from gpusquad.server.ids import new_id
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.advice import Note, ResolvedJob
from gpusquad.server.services.jobs.launches import ReadSecret
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.spec.convert import grace_s, retry_rule, task_commands
from gpusquad.spec.model import JobSpec
from gpusquad.store import jobs
from gpusquad.store.jobs import JobRow

FOUND_WITHIN_S = 5.0
"""Time a submission waits for its jobs to be found."""
NOT_COMPLETE = "created in the cluster, not complete yet"
"""Nothing is stored until then: the cluster may never create its pods."""
_MAX_EXPECTED = 10_000
_MARK_CHARS = 26


@dataclass(frozen=True)
class PendingSubmission:
    """A job that is being created."""

    row: JobRow
    job: Job
    notes: tuple[Note, ...] = ()
    states: Mapping[str, str] = field(default_factory=dict)
    """States of its dependencies at submission."""
    is_found: threading.Event = field(default_factory=threading.Event)

    def row_as(self, found: JobRow) -> JobRow:
        """The found row, completed with what only the submission knows."""
        own = self.row
        kept = {"group_id": own.group_id, "spec": own.spec, "after": own.after, "sequence": own.sequence,
                "resolved": own.resolved}  # fmt: skip
        if own.after:
            kept |= {"state": own.state}
        return replace(found, **kept)

    def record_notes(self, unit: UnitOfWork) -> None:
        """Record advice and warnings, and release the waiting submission after the commit."""
        for note in self.notes:
            unit.record(self.row.id, note.kind, note.text, data=note.data)
        unit.after_commit.append(self.is_found.set)


class ClusterSubmissions:
    """Submits from any thread. ``take`` is called inside a pass."""

    def __init__(self, context: SchedulerContext, maker: JobObjectCreator, read_secret: ReadSecret) -> None:
        self._context = context
        self._maker = maker
        self._read_secret = read_secret
        self._expected: OrderedDict[str, PendingSubmission] = OrderedDict()
        self._lock = threading.Lock()

    def requests(self, settled: Sequence[ResolvedJob], group_id: str | None) -> list[JobObjectRequest]:
        """Requests for the cluster objects. Equal ``group_id`` give equal names, so that a submission can be
        repeated."""
        base = group_id or new_id()
        return [self._request(one, _mark(base, number)) for number, one in enumerate(settled)]

    def job_id(self, requests: JobObjectRequest) -> str:
        return self._maker.job_id(requests)

    def make(self, requests: Sequence[JobObjectRequest], expected: Sequence[PendingSubmission]) -> list[JobRow]:
        """Create all or none. Returns the stored rows, or the expected ones for jobs that are not found in time."""
        for one in expected:
            self._expect(one)
        try:
            self._maker.make(requests)
        except BaseException as error:
            for one in expected:
                self.take(one.row.id)
            if isinstance(error, ConnectionError):
                raise Unavailable(str(error)) from None
            raise
        deadline_s = time.monotonic() + FOUND_WITHIN_S
        for one in expected:
            if one.row.id not in self._context.rows:
                one.is_found.wait(max(0.0, deadline_s - time.monotonic()))
        return [self._row(one) for one in expected]

    def take(self, job_id: str) -> PendingSubmission | None:
        with self._lock:
            return self._expected.pop(job_id, None)

    def note(self, job_id: str, job: Job) -> None:
        """Record changed attributes on the job's objects."""
        self._maker.note(job_id, job)

    def _expect(self, one: PendingSubmission) -> None:
        with self._lock:
            self._expected[one.row.id] = one
            while len(self._expected) > _MAX_EXPECTED:
                self._expected.popitem(last=False)  # its pods were never created

    def _row(self, one: PendingSubmission) -> JobRow:
        with self._context.database.read() as connection:
            row = jobs.get(connection, one.row.id)
        if row is not None:
            return row
        lacks = self._maker.lacks(one.row.id)
        return replace(one.row, cause=f"{NOT_COMPLETE}: waits for {lacks or 'its pods'}")

    def _request(self, settled: ResolvedJob, mark: str) -> JobObjectRequest:
        spec, job = settled.spec, settled.job
        return JobObjectRequest(
            job=job, mark=mark, programs=programs_of(spec), image=spec.image, workdir=spec.workdir,
            grace_s=grace_s(spec), retries=_retries(spec),
            secrets={secret.env_name: self._read_secret(job.tenant, secret.name) for secret in spec.secrets},
        )  # fmt: skip


def programs_of(spec: JobSpec) -> tuple[TaskProgram, ...]:
    """Program of each role."""
    firsts = [command for command in task_commands(spec) if command.role_index == 0]
    return tuple(TaskProgram(first.command, first.env) for first in firsts)


def meant(before: Job, found: Job) -> Job:
    """The submitted job with the cluster's tasks, requests and allowed nodes."""
    return replace(before, id=found.id, roles=found.roles)


def identified(row: JobRow, job: Job) -> JobRow:
    """The row under the id by which the job will be found. The cluster itself retries failed tasks."""
    return replace(row, id=job.id, core=job_to_dict(job), retries_left=0)


def _retries(spec: JobSpec) -> int:
    rule = retry_rule(spec)
    return rule.count if "failed" in rule.on else 0


def _mark(base: str, number: int) -> str:
    return hashlib.sha256(f"{base}/{number}".encode()).hexdigest()[:_MARK_CHARS]
