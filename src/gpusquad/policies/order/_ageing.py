"""Ageing, so that no order policy starves a job: overdue jobs go first, by eligible time."""

from __future__ import annotations

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import OrderView

DAY_S = 86_400.0


def waited_us(job: Job, view: OrderView) -> int:
    """Time since it became eligible that was not spent running.

    Run time is subtracted because a job that has run for days has not waited. Under a preempting order it would
    otherwise become overdue while running and could never be preempted again. A job without GPUs has no service record,
    so its whole age counts.
    """
    age_us = view.now_us - job.eligible_us
    if not job.gpu_milli:
        return age_us
    # Rounded down, so that a job that starts because it is overdue does not fall back by rounding once it runs.
    run_us = int(view.served_gpu_s(job) * 1000 * US_PER_S / job.gpu_milli)
    return age_us - max(0, run_us - job.ran_before_us)


def is_overdue(job: Job, view: OrderView, max_wait_s: float) -> bool:
    """Whether the job has waited longer than ``max_wait_s``."""
    limit_us = max_wait_s * US_PER_S
    # The age is a cheap upper bound; most jobs are young.
    return view.now_us - job.eligible_us > limit_us and waited_us(job, view) > limit_us


def check_wait(max_wait_s: float) -> None:
    """Check ``max_wait_s``. Infinity disables ageing."""
    if not max_wait_s >= 0:  # written this way, NaN fails too
        raise Invalid(
            "max_wait_s", f"{max_wait_s!r} is not a non-negative time", "use 0 or more seconds, or inf for no ageing"
        )


def check_step(value: float, field: str) -> None:
    """Check a divisor."""
    if not value > 0:
        raise Invalid(field, f"{value!r} is not greater than zero", "use for example 3600")
