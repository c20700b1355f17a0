"""What the pending and running jobs ask of the scheduler: the view from which an automatic mode chooses."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.core.state.state import SchedulerState
from gpusquad.model.job import Job
from gpusquad.model.units import show_count

USAGE_FLOOR_GPU_S = 3600.0
"""Added to the usage of every tenant before they are compared. Otherwise the first minutes of use would differ by any
factor."""


@dataclass(frozen=True, slots=True)
class Goals:
    """Goals of the jobs at one instant."""

    pending: int = 0
    running: int = 0
    deadlines: int = 0
    """Jobs with a deadline that has not passed."""
    services: int = 0
    """Jobs with a latency, throughput or availability target."""
    contenders: int = 0
    """Tenants with pending jobs."""
    usage_ratio: float = 1.0
    """Recent usage by weight of the contender that used most, divided by that of the one that used least."""
    most_used: str = ""
    least_used: str = ""

    @property
    def jobs(self) -> int:
        return self.pending + self.running

    @property
    def deadline_ratio(self) -> float:
        """Fraction of the jobs."""
        return self.deadlines / self.jobs if self.jobs else 0.0

    @property
    def service_ratio(self) -> float:
        return self.services / self.jobs if self.jobs else 0.0

    def explain(self, goal: str) -> str:
        """The numbers behind a goal."""
        jobs = show_count(self.jobs, "pending and running job")
        match goal:
            case "deadlines":
                return f"{self.deadlines} of {jobs} {_have(self.deadlines)} a deadline that can be met"
            case "services":
                return f"{self.services} of {jobs} {_is(self.services)}"
            case "fairness":
                most, least = self.most_used or "default", self.least_used or "default"
                return (
                    f"{self.contenders} tenants have pending jobs, and {most} used {self.usage_ratio:.1f} times as much"
                    f" as {least} recently"
                )
        return f"no goal of the {jobs} asks for another mode"


def goals_of(state: SchedulerState, now_us: int) -> Goals:
    """Goals of the pending and running jobs."""
    pending = [waiting.job for waiting in state.queue]
    jobs = pending + [run.job for run in state.runs.by_id.values()]
    used = sorted((_usage(state, name, now_us), name) for name in {job.tenant for job in pending})
    least, most = (used[0], used[-1]) if len(used) > 1 else ((1.0, ""), (1.0, ""))
    return Goals(
        pending=len(pending),
        running=len(jobs) - len(pending),
        deadlines=sum(_has_open_deadline(job, now_us) for job in jobs),
        services=sum(_is_service(job) for job in jobs),
        contenders=len(used),
        usage_ratio=most[0] / least[0],
        most_used=most[1],
        least_used=least[1],
    )


def _usage(state: SchedulerState, tenant: str, now_us: int) -> float:
    view = state.accounts.view(tenant, now_us)
    return view.decayed_gpu_s / view.weight + USAGE_FLOOR_GPU_S


def _has_open_deadline(job: Job, now_us: int) -> bool:
    return job.slo is not None and job.slo.deadline_us is not None and job.slo.deadline_us > now_us


def _is_service(job: Job) -> bool:
    slo = job.slo
    return slo is not None and (slo.latency_us, slo.throughput_per_s, slo.availability_ratio) != (None, None, None)


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _is(count: int) -> str:
    return "is a service" if count == 1 else "are services"
