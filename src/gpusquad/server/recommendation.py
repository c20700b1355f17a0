"""Advice in job-file form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpusquad.model.fields import cores
from gpusquad.model.job import Request
from gpusquad.model.units import US_PER_S
from gpusquad.predict.advice import SAFE_LEVEL, WARN_LEVEL, AdvisedValue, ScalingPoint, rounded_gib
from gpusquad.predict.host_advice import FAIR_SHARE, size_text
from gpusquad.predict.memory import PeakPrediction
from gpusquad.server.services.jobs.advice import Recommendation
from gpusquad.server.views import Plain
from gpusquad.spec.auto import auto_fields
from gpusquad.spec.model import JobSpec

SHOWN_JOBS = 5
_MUCH = 1.25
"""Factor by which a request must exceed the need to be worth a change."""


def recommend_view(spec: JobSpec, found: Recommendation) -> Plain:
    known, advised = found.known, found.advised
    newest = [seen.job_id for seen in reversed(known.runs)][:SHOWN_JOBS]
    return {
        "advice": list(_lines(spec, found)) if spec.roles is None else [],
        "times": [_times(one) for one in advised.times],
        "memory": _peak(known.peak),
        "evidence": None
        if known.group is None
        else {
            "runs": len(known.runs),
            "of": known.group.name,
            "jobs": newest,
            "uses": [{"job": use.job_id, "busy_ratios": list(use.busy)} for use in known.uses],
        },
        "notes": list(advised.notes),
        "missing": list(advised.missing),
    }


def _lines(spec: JobSpec, found: Recommendation) -> Iterator[Plain]:
    advised, role = found.advised, found.job.roles[0]
    if advised.gpus is not None and not found.job.is_elastic:
        yield from _gpus(spec, advised.gpus, role.count, role.request.gpus)
    if advised.memory is not None and found.known.peak is not None:
        yield _memory(spec, advised.memory, found.known.peak, role.request, found.known.card_bytes)
    if advised.cpu_milli is not None and advised.cpu_milli.source != FAIR_SHARE:
        milli, asked = advised.cpu_milli.value, role.request.cpu_milli
        change = 0 < asked < milli or asked > _MUCH * milli
        yield _line("cpu", cores(milli), spec.cpu, change, advised.cpu_milli.why)
    if advised.host_memory is not None and advised.host_memory.source != FAIR_SHARE:
        needed, asked = advised.host_memory.value, role.request.memory_bytes
        change = 0 < asked < needed or asked > _MUCH * needed
        yield _line("memory", size_text(needed), spec.memory, change, advised.host_memory.why)


def _gpus(spec: JobSpec, choice: AdvisedValue, tasks: int, each: int) -> Iterator[Plain]:
    """Fewer tasks, if there are several: the cards per task are part of the program."""
    if tasks == 1 or "gpus" in auto_fields(spec):
        yield _line("gpus", choice.value, spec.gpus, "gpus" in auto_fields(spec) or choice.value != each, choice.why)
    elif choice.value % each == 0:
        yield _line("count", choice.value // each, spec.count, choice.value // each != tasks, choice.why)


def _memory(
    spec: JobSpec, choice: AdvisedValue, peak: PeakPrediction, request: Request, card_bytes: Sequence[int]
) -> Plain:
    needed, likely, value = peak.bytes.at(SAFE_LEVEL), peak.bytes.at(WARN_LEVEL), rounded_gib(choice.value)
    if request.share is not None:
        asked = request.share.memory_on(max(card_bytes, default=0))
        now = spec.share.memory if spec.share is not None else None
        return _line("share.memory", value, now, asked < likely or asked > _MUCH * choice.value, choice.why)
    asked = request.min_card_memory_bytes
    too_small = any(size < needed and size >= asked for size in card_bytes)
    excluded = any(choice.value <= size < asked for size in card_bytes)
    is_open = "gpu_memory" in auto_fields(spec)
    return _line("gpu_memory", value, spec.gpu_memory, is_open or too_small or excluded, choice.why)


def _line(field: str, value: float | str, now: float | str | None, change: bool, why: str) -> Plain:
    return {"field": field, "value": value, "now": now, "change": change, "why": why}


def _times(one: ScalingPoint) -> Plain:
    return {
        "gpus": one.gpus,
        "low_s": one.run.at(0.1) / US_PER_S,
        "mid_s": one.run.at(0.5) / US_PER_S,
        "high_s": one.run.at(0.9) / US_PER_S,
        "efficiency_ratio": one.efficiency_ratio,
        "source": one.run.source,
        "confidence": one.run.confidence,
    }


def _peak(peak: PeakPrediction | None) -> Plain | None:
    if peak is None:
        return None
    lines = peak.bytes
    return {
        "mid_bytes": lines.at(0.5),
        "high_bytes": lines.at(0.9),
        "source": lines.source,
        "confidence": lines.confidence,
    }
