"""Lanes: classes of jobs with their own treatment. The first rule that matches a job decides."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job


@dataclass(frozen=True, slots=True)
class Lane:
    """Which jobs belong to it, and how they are treated."""

    name: str
    min_gpus: int = 0
    """Total GPUs of the gang, inclusive."""
    max_gpus: int | None = None
    tenants: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()
    preemptible: bool = True
    """Whether its running jobs may be preempted."""
    max_lost_s: float | None = None
    """Most work per card that a preemption may cost one of its jobs. Then only jobs are preempted that the engine can
    suspend, or whose last checkpoint is at most this old. None: any job."""
    limit_ratio: float = 1.0
    """Fraction of all GPUs that the lane may hold at most."""

    def __post_init__(self) -> None:
        if self.min_gpus < 0 or (self.max_gpus is not None and self.max_gpus < self.min_gpus):
            raise Invalid(f"lane.{self.name}", f"{self.min_gpus} to {self.max_gpus} GPUs matches no job")
        if not 0 < self.limit_ratio <= 1:
            raise Invalid(f"lane.{self.name}.limit_ratio", f"{self.limit_ratio!r} is not above 0 and at most 1")
        if self.max_lost_s is not None and not self.max_lost_s >= 0:
            raise Invalid(f"lane.{self.name}.max_lost_s", f"{self.max_lost_s!r} is not 0 or more", "use seconds")

    def takes(self, job: Job) -> bool:
        return (
            self.min_gpus <= job.gpus
            and (self.max_gpus is None or job.gpus <= self.max_gpus)
            and (not self.tenants or job.tenant in self.tenants)
            and (not self.priorities or job.priority in self.priorities)
        )


REST = Lane("rest")
WHOLE_NODE_GPUS = 8
FRESH_S = 300.0
"""Age of a checkpoint up to which a preemption costs a large job little."""
DEFAULT_LANES = (Lane("large", min_gpus=WHOLE_NODE_GPUS, max_lost_s=FRESH_S), Lane("small"))
"""Two lanes, split at a whole node: small jobs are preemptible, large ones where they lose little."""


def lane_of(job: Job, lanes: tuple[Lane, ...]) -> Lane:
    """The lane named by the job, else the first whose rule matches."""
    if job.lane:
        for lane in lanes:
            if lane.name == job.lane:
                return lane
        raise Invalid("lane", f"{job.lane!r} does not exist", f"choose from {', '.join(x.name for x in lanes)}")
    return next((lane for lane in lanes if lane.takes(job)), REST)
