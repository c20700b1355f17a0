"""How an attempt ended, and what follows for its job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpusquad.core.ports import AttemptEnded
from gpusquad.core.transitions import JobState
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.spec.check import spec_from_dict
from gpusquad.spec.convert import RetryRule, retry_rule
from gpusquad.store.jobs import JobRow

S = JobState


@dataclass(frozen=True, slots=True)
class Verdict:
    """Next state of a job whose attempt ended."""

    then: JobState
    how: str
    """Reported to the core and stored with the attempt."""
    cause: str


def judge_end(row: JobRow, report: AttemptEnded) -> Verdict:
    """A gang that was asked to stop ended for that reason, unless it succeeded before."""
    state, requested = JobState(row.state), row.stop or {}
    if report.how == "succeeded" and state is not S.LOST:
        return Verdict(S.SUCCEEDED, "succeeded", "")
    if state is S.STOPPING and requested.get("hung_on"):
        return Verdict(S.HELD, "held", requested["cause"])
    if state is S.STOPPING:
        how = requested.get("how", "cancelled")
        return Verdict(JobState(how), how, requested.get("cause", ""))
    if state is S.PREEMPTING:
        return Verdict(S.PENDING, "preempted", requested.get("cause", ""))
    if state is S.LOST:
        return Verdict(S.PENDING, "lost", requested.get("cause", report.cause))
    if report.how in ("lost", "stopped"):
        return Verdict(S.PENDING, "lost", report.cause)
    if may_retry(row):
        return Verdict(S.HELD, "held", report.cause)
    return Verdict(S.FAILED, "failed", report.cause)


def ended_at_us(unit: UnitOfWork, row: JobRow, report: AttemptEnded) -> int:
    """End by the engine's clock, because the service may have been down. Bounded, because clocks differ."""
    if report.ended_us is None or row.started_us is None:
        return unit.now_us
    return max(row.started_us, min(report.ended_us, unit.now_us))


def may_retry(row: JobRow) -> bool:
    """Whether it has a retry left after a failure."""
    return row.retries_left > 0 and "failed" in rule_of(row).on


def rule_of(row: JobRow) -> RetryRule:
    """When its job file allows retries."""
    return retry_rule(spec_from_dict(dict(row.spec))) if row.spec else RetryRule()


def result_of(report: AttemptEnded) -> dict[str, Any] | None:
    """The task that ended the gang, as it is stored with the job."""
    first = report.first
    if first is None:
        return None
    return {"task": first.task, "exit_code": first.exit_code, "signal": first.signal, "oom": first.out_of_memory,
            "cause": first.cause}  # fmt: skip
