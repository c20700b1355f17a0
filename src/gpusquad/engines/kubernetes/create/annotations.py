"""What a job's pods say of how it is to be treated: whoever finds them reads it there, also after a restart."""

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


def said_of(job: Job) -> dict[str, str]:
    """What is not said is left out: then the usual holds."""
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


def changed_to(job: Job) -> dict[str, str | None]:
    """As a merge patch of annotations: None takes away what is no longer said."""
    said = said_of(job)
    return {name: said.get(name) for name in (QUEUE, LANE, PRIORITY, ESTIMATE, LIMIT, SLO)}


def _time(us: int | None) -> str:
    """Exactly, and as people write it where that is the same."""
    if not us:
        return ""
    return f"{us // US_PER_S}s" if us % US_PER_S == 0 else f"{us}us"
