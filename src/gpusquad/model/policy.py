"""Base classes of order, plan and place policies. A policy overrides in its own file what differs from the defaults."""

from __future__ import annotations

from math import inf
from typing import ClassVar, Literal

from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.views import OrderView, PlanSession, Refusal, Trial

Varies = Literal["never", "with_service", "with_time", "when_due"]
Binds = Literal["always", "overstayed", "never"]


class OrderPolicy:
    """Sorts the pending queue by ``key``, smallest first. Ties go by arrival."""

    varies: ClassVar[Varies] = "with_time"
    """When keys change without an event of the job. never: the queue is not sorted again. when_due: only when
    ``due_us`` promotes jobs. Otherwise every cycle sorts the queue."""
    changes_with_each_start: ClassVar[bool] = False
    """Whether a start changes the keys of other jobs, so that the cycle sorts the queue again after it."""
    by_turns: ClassVar[bool] = False
    """Whether it decides whose turn it is, by what tenants use or hold. It then decides who gets the next reservation,
    and a job that holds the first one keeps its place until it starts: otherwise jobs of others that come later would
    pass it without end, each of them in its turn."""
    passes_by: ClassVar[str] = ""
    """Why a job of another tenant goes ahead of one that has waited for longer, for ``why``. Empty: for no reason of
    its tenant."""
    preempts: ClassVar[bool] = False
    """Whether a pending job may preempt runs with larger keys, if the preemption settings allow it."""

    def key(self, job: Job, view: OrderView) -> tuple:
        raise NotImplementedError

    def due_us(self, job: Job, view: OrderView) -> int:
        """When the job should start at the latest. Called only if ``varies`` is ``when_due``."""
        raise NotImplementedError


class PlanPolicy:
    """Decides which jobs start, get a reservation or are backfilled."""

    binds: Binds = "always"
    """When a reservation binds the jobs that are backfilled before it (``core.planning.commitments``). always: they
    must leave by the promised start, and when one of them outlives its time, or that start has passed, no other
    follows. overstayed: no other follows when one of them outlives its time, for modes that plan by short quantiles
    and so expect to be late. never: a job may be delayed repeatedly."""

    def walk(self, session: PlanSession) -> None:
        """Use the session for one cycle."""
        raise NotImplementedError

    def patience_us(self, width_ratio: float) -> float:
        """Wait of the head of the queue after which careful quantiles apply to all jobs until it runs.
        ``width_ratio``: its GPUs as a fraction of the cluster, at most 1."""
        return inf


class PlacePolicy:
    """Chooses nodes and cards for a gang."""

    def propose(self, job: Job, trial: Trial) -> Placement | Refusal:
        """Place all tasks with the trial and return ``trial.done()`` or ``trial.refuse()``."""
        raise NotImplementedError

    def rank(self, jobs: list[Job], rate: Rate | None = None, gpu: str = "") -> list[Job]:
        """Order in which jobs that start together are placed. ``rate``: beside given neighbours, on this card model."""
        return jobs

    def overcommits(self) -> bool:
        """Whether it may place a gang that does not fit by free capacity."""
        return False
