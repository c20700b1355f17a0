"""Runs the estimators that job files name, before their jobs are queued.

An estimator is a program of the job's user: it runs as the job would, in its folder, environment and user, but without
cards, on the machine of the service and with the means of the local engine. Equal estimators run once, and users take
turns.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import structlog

from gpusquad.core.ports import AttemptEnded, AttemptStarted, Launch, TaskLaunch
from gpusquad.core.transitions import JobState
from gpusquad.model.codec import job_to_dict
from gpusquad.model.errors import Invalid
from gpusquad.server.safe_text import one_line
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.advice import Advice, ResolvedJob
from gpusquad.server.services.jobs.estimator_answers import EstimatorAnswer, failed, read_answer, with_answer
from gpusquad.server.services.jobs.estimator_turns import EstimatorTurns
from gpusquad.server.services.jobs.fitting import refusal_of
from gpusquad.server.services.jobs.launches import ReadSecret
from gpusquad.server.services.jobs.outcomes import Outcomes
from gpusquad.server.services.prediction.predictor import JobPrediction
from gpusquad.server.services.runtime.loop import Finish
from gpusquad.server.services.runtime.records import forecast_record, run_forecast_row
from gpusquad.server.services.runtime.tenants import TenantCache
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.spec.auto import with_choices
from gpusquad.spec.check import spec_from_dict, spec_to_dict
from gpusquad.spec.convert import estimator_argv, estimator_timeout_s, to_job
from gpusquad.spec.model import JobSpec
from gpusquad.store.jobs import JobRow

_log = structlog.get_logger("gpusquad.estimators")
SUFFIX = ".estimate"
"""Of the id under which an estimator runs: that of its job and this."""
CPU_MILLI, MEMORY_BYTES = 2000, 8 << 30
"""Limits of an estimator, where limits can be set."""
CACHED_S, MAX_CACHED = 24 * 3600.0, 1000
_GRACE_S = 1.0
_WAITING = "waiting"
# The output goes to a file of its own, so that warnings on standard error do not mix with it.
_WRAPPER = ("/bin/sh", "-c", 'exec "$0" "$@" >"$GPUSQUAD_PROGRESS.out"')


class EstimatorRunner(Protocol):
    """Access to the files of estimators."""

    def fingerprint(self, launch: Launch, argv: Sequence[str]) -> str | None:
        """Equal for programs that give equal answers. None: too many files to tell."""
        ...

    def output(self, job_id: str, attempt: int) -> tuple[bytes | None, str]:
        """What it printed, and the end of its error output. None: nothing that can be read."""
        ...

    def forget(self, job_id: str) -> None:
        """Delete its files."""
        ...


@dataclass
class _Run:
    """One estimator, for one or several equal jobs."""

    key: str
    launch: Launch
    command: str
    timeout_s: float
    jobs: dict[str, str]
    """To their users."""
    user: str = ""
    """Whose turn it takes while it runs."""
    began_s: float = 0.0
    is_late: bool = False
    timer: threading.Timer | None = field(default=None, repr=False)


def waiting_record() -> dict[str, Any]:
    """The ``resolved`` of a job whose estimator has not ended."""
    return {"estimator": {"state": _WAITING}}


def awaits_estimate(row: JobRow) -> bool:
    """Whether its estimator has not ended."""
    return ((row.resolved or {}).get("estimator") or {}).get("state") == _WAITING


class Estimators:
    """``start`` and ``job_ended`` are called inside a pass, ``report`` from any thread. The rest runs in one thread of
    its own, because it reads files and the store."""

    def __init__(
        self,
        context: SchedulerContext,
        outcomes: Outcomes,
        tenants: TenantCache,
        read_secret: ReadSecret,
        advice: Advice,
        runner: EstimatorRunner,
    ) -> None:
        self._context = context
        self._outcomes = outcomes
        self._tenants = tenants
        self._read_secret = read_secret
        self._advice = advice
        self._runner = runner
        self._thread = ThreadPoolExecutor(1, "gpusquad-estimators")
        self._queue: list[_Run] = []
        self._running: dict[str, _Run] = {}
        self._turns = EstimatorTurns()
        self._cache: OrderedDict[str, tuple[float, EstimatorAnswer]] = OrderedDict()
        self._last_attempt = 0
        self.on_resolved: Callable[[JobRow], None] = lambda row: None
        """Called inside a pass with each job that can be queued now."""

    def start(self, unit: UnitOfWork, row: JobRow) -> None:
        """Run the estimator of a job that waits for nothing else."""
        unit.after_commit.append(lambda: self._do(lambda: self._begin(row)))

    def report(self, report: AttemptStarted | AttemptEnded) -> bool:
        """Whether the report is about an estimator."""
        if not report.job_id.endswith(SUFFIX):
            return False
        if isinstance(report, AttemptEnded):
            self._do(lambda: self._ended(report))
        return True

    def job_ended(self, unit: UnitOfWork, row: JobRow) -> None:
        """Stop an estimator that nobody waits for any more."""
        if awaits_estimate(row):
            unit.after_commit.append(lambda: self._do(lambda: self._drop(row.id)))

    def close(self) -> None:
        """Estimators that run are stopped by the next service, which starts them again."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        for run in list(self._running.values()):
            if run.timer is not None:
                run.timer.cancel()

    def _do(self, act: Callable[[], None]) -> None:
        try:
            self._thread.submit(self._logged, act)
        except RuntimeError:
            return  # the service is stopping

    def _logged(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            _log.exception("estimator not handled")

    # -- runs ------------------------------------------------------------------------------------------------------

    def _begin(self, row: JobRow) -> None:
        spec = spec_from_dict(dict(row.spec))
        argv = estimator_argv(spec)
        command = one_line(" ".join(argv[2:] if argv[:2] == ("/bin/sh", "-c") else argv))
        try:
            launch = self._launch(row, spec, argv)
            key = self._runner.fingerprint(launch, argv) or f"job {row.id}"
        except Exception as error:  # a secret that is gone, or a folder that cannot be read
            return self._answer([row.id], failed(command, one_line(error)))
        cached = self._cache.get(key)
        if cached is not None and time.monotonic() - cached[0] < CACHED_S:
            return self._answer([row.id], replace(cached[1], cached=True, took_s=0.0))
        for run in (*self._running.values(), *self._queue):
            if run.key == key:
                run.jobs[row.id] = row.user
                return self._fill()  # it may run in this user's turn
        self._queue.append(_Run(key, launch, command, estimator_timeout_s(spec), {row.id: row.user}))
        return self._fill()

    def _launch(self, row: JobRow, spec: JobSpec, argv: Sequence[str]) -> Launch:
        node = self._context.fixed.node_ids[0]
        task = TaskLaunch(0, "estimate", 0, node, (), (*_WRAPPER, *argv), CPU_MILLI, MEMORY_BYTES, env=spec.env)
        # A folder of an earlier service may remain, so each run has a number of its own.
        self._last_attempt = max(self._last_attempt + 1, self._context.clock.now_us() // 1_000_000 % 10**9)
        return Launch(
            f"{row.id}{SUFFIX}", self._last_attempt, row.name, row.tenant, row.user, (task,), workdir=spec.workdir,
            grace_s=_GRACE_S, simulated=self._context.simulated, run_as=self._tenants.run_as(row.tenant),
            secrets={secret.env_name: self._read_secret(row.tenant, secret.name) for secret in spec.secrets},
        )  # fmt: skip

    def _fill(self) -> None:
        """Start what may run now."""
        while turn := self._turns.next(
            [run.user for run in self._running.values()], [run.jobs.values() for run in self._queue]
        ):
            run = self._queue.pop(turn.place)
            run.user = turn.user
            self._running[run.launch.job_id] = run
            run.began_s = time.monotonic()
            run.timer = threading.Timer(run.timeout_s, self._do, [lambda run=run: self._late(run)])
            run.timer.daemon = True
            run.timer.start()
            try:
                self._context.engine.launch(run.launch)
            except Exception as error:
                self._finish(run, failed(run.command, f"could not be started: {one_line(error)}"))
        self._context.estimating = frozenset(job_id for run in self._running.values() for job_id in run.jobs)

    def _late(self, run: _Run) -> None:
        if run.launch.job_id in self._running:
            run.is_late = True
            self._context.engine.stop(run.launch.job_id, run.launch.attempt, "its time limit is reached", _GRACE_S)

    def _drop(self, job_id: str) -> None:
        for run in (*self._running.values(), *self._queue):
            run.jobs.pop(job_id, None)
            if run.jobs:
                continue
            if run in self._queue:
                self._queue.remove(run)
            else:
                self._context.engine.stop(run.launch.job_id, run.launch.attempt, "its job has ended", _GRACE_S)

    def _ended(self, report: AttemptEnded) -> None:
        run = self._running.get(report.job_id)
        if run is None or report.attempt != run.launch.attempt:
            return self._runner.forget(report.job_id)
        took_s = time.monotonic() - run.began_s
        printed, errors = self._runner.output(report.job_id, report.attempt)
        if run.is_late:
            answer = failed(run.command, f"did not end within {run.timeout_s:g} s", took_s)
        elif report.how != "succeeded":
            why = report.cause.partition(") ")[2] or report.cause
            answer = failed(run.command, one_line(f"{why}: {errors}" if errors else why, 300), took_s)
        else:
            answer = read_answer(run.command, printed, took_s)
        return self._finish(run, answer)

    def _finish(self, run: _Run, answer: EstimatorAnswer) -> None:
        del self._running[run.launch.job_id]
        if run.timer is not None:
            run.timer.cancel()
        self._runner.forget(run.launch.job_id)
        if not answer.warning:
            self._cache[run.key] = (time.monotonic(), answer)
            while len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)
        self._answer(list(run.jobs), answer)
        self._fill()

    # -- answers ---------------------------------------------------------------------------------------------------

    def _answer(self, job_ids: Sequence[str], answer: EstimatorAnswer) -> None:
        for job_id in job_ids:
            with self._context.lock:
                row = self._context.rows.get(job_id)
            if row is None:
                continue
            spec = spec_from_dict(dict(row.spec))
            try:
                settled, used = self._settled(row, spec, answer), answer
            except Invalid as error:  # fields that contradict each other or the job file
                used = failed(answer.command, f"printed what cannot be used: {error}", answer.took_s)
                settled = self._settled(row, spec, used)
            prediction = self._context.forecast(settled.job)
            self._context.loop.post(self._applying(job_id, spec, settled, used, prediction))

    def _settled(self, row: JobRow, spec: JobSpec, answer: EstimatorAnswer) -> ResolvedJob:
        filled = with_answer(spec, answer)
        job = to_job(filled, row.id, row.submitted_us, row.tenant, row.user)
        return self._advice.settle([filled], [job])[0]

    def _applying(self, job_id: str, spec: JobSpec, settled: ResolvedJob, answer: EstimatorAnswer,
                  prediction: JobPrediction) -> Callable[[], Finish | None]:  # fmt: skip
        def apply() -> Finish | None:
            row = self._context.rows.get(job_id)
            if row is not None and row.state == JobState.HELD and awaits_estimate(row):
                self._apply(row, spec, settled, answer, prediction)
            return None

        return apply

    def _apply(self, row: JobRow, spec: JobSpec, settled: ResolvedJob, answer: EstimatorAnswer,
               prediction: JobPrediction) -> None:  # fmt: skip
        """Inside a pass: store the answer and the choices, and let the job be queued."""
        context = self._context
        unit, job = context.unit, settled.job.eligible_as(context.job(row.id))
        chosen = with_choices(spec, **{choice.field: choice.value for choice in settled.choices})
        context.jobs[row.id] = job
        row = unit.change(
            row.id, spec=spec_to_dict(chosen), core=job_to_dict(job), gpus=job.gpus, gpu_milli=job.gpu_milli,
            resolved=(settled.resolved or {}) | {"estimator": answer.record()},
            forecast=forecast_record(prediction.forecast, prediction.run),
        )  # fmt: skip
        unit.record(row.id, "warned" if answer.warning else "estimated", answer.text, data=answer.record())
        for note in settled.notes:
            unit.record(row.id, note.kind, note.text, data=note.data)
        reason = refusal_of(context.state, replace(settled, job=job))
        if reason is not None:
            self._outcomes.finish(unit, row.id, JobState.FAILED, str(reason))
            return
        unit.predictions.append(run_forecast_row(job, row.attempt, unit.now_us, prediction.run))
        self.on_resolved(row)
