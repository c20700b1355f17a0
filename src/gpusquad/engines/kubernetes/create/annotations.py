"""Attributes of a job as annotations of its pods. The scheduler reads them there, also after a restart."""

from __future__ import annotations

from gpusquad.kube.names import (
    APP,
    CHECKPOINT_EVERY,
    ESTIMATE,
    LANE,
    LIMIT,
    PREEMPTIBLE,
    PRIORITY,
    QUEUE,
    SLO,
    USER,
)
from gpusquad.model.job import Job
from gpusquad.model.slo_text import goal_text
from gpusquad.model.units import US_PER_S


def job_annotations(job: Job) -> dict[str, str]:
    """Attributes with their default value are left out."""
    found = {
        USER: job.user,
        APP: job.app,
        QUEUE: job.queue,
        LANE: job.lane,
        PRIORITY: "" if job.priority == "normal" else job.priority,
        ESTIMATE: _time(job.estimate_us),
        LIMIT: _time(job.limit_us),
        SLO: goal_text(job.slo, job.submitted_us),
        CHECKPOINT_EVERY: _time(job.checkpoint.every_us),
        PREEMPTIBLE: "" if job.checkpoint.preemptible else "false",
    }
    return {name: text for name, text in found.items() if text}


def annotation_changes(job: Job) -> dict[str, str | None]:
    """A merge patch of annotations: None removes one."""
    annotations = job_annotations(job)
    return {name: annotations.get(name) for name in (QUEUE, LANE, PRIORITY, ESTIMATE, LIMIT, SLO)}


def _time(us: int | None) -> str:
    """Exact; in seconds if possible."""
    if not us:
        return ""
    return f"{us // US_PER_S}s" if us % US_PER_S == 0 else f"{us}us"
