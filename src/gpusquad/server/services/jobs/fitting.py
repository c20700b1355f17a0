"""Keeps ``auto`` from making a job impossible: its CPU and main memory are lowered to what fits the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpusquad.core.explain.explain import refusal
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.reasons import Reason, ReasonCode
from gpusquad.predict.host_advice import LEAST_CPU_MILLI, LEAST_MEMORY_BYTES
from gpusquad.server.services.jobs.advice import Choice, ResolvedJob
from gpusquad.spec.auto import with_choices
from gpusquad.spec.convert import to_job

_LEAST = {"cpu": LEAST_CPU_MILLI, "memory": LEAST_MEMORY_BYTES}


def fitted(state: SchedulerState, settled: ResolvedJob) -> ResolvedJob:
    """The job with lower choices if it fits only with those. What similar jobs used is not lowered: they need it."""
    if not settled.choices or refusal(state, settled.job) is None:
        return settled
    lowered = [choice for choice in _host_choices(settled) if choice.source != "history"]
    found = _without(settled, lowered)
    if not lowered or refusal(state, found.job) is not None:
        return settled
    for choice in lowered:
        found = _largest(state, found, choice)
    return found


def refusal_of(state: SchedulerState, settled: ResolvedJob) -> Reason | None:
    """The reason to refuse the job. It names the choices that make the job impossible."""
    reason = refusal(state, settled.job)
    chosen = _host_choices(settled)
    if reason is None or reason.code != ReasonCode.NEVER_FITS or not chosen:
        return reason
    if refusal(state, _without(settled, chosen).job) is not None:
        return reason
    names = " and ".join(f"{choice.field}: auto" for choice in chosen)
    values = " and ".join(f"{choice.value} ({choice.why})" for choice in chosen)
    return replace(reason, message=f"{names} chose {values}: {reason.message}", cure="write a smaller number than that")


def _host_choices(settled: ResolvedJob) -> list[Choice]:
    return [choice for choice in settled.choices if choice.name in _LEAST and choice.amount]


def _largest(state: SchedulerState, settled: ResolvedJob, choice: Choice) -> ResolvedJob:
    """The first of the choice, its half, and so on, that fits; else the smallest."""
    amount = choice.amount or 0
    found = _with(settled, choice)
    while refusal(state, found.job) is not None and amount // 2 >= _LEAST[choice.name]:
        amount //= 2
        found = _with(settled, choice.lowered_to(amount))
    return found


def _with(settled: ResolvedJob, choice: Choice) -> ResolvedJob:
    spec = with_choices(settled.spec, **{choice.field: choice.value})
    choices = tuple(choice if one.field == choice.field else one for one in settled.choices)
    job = to_job(spec, settled.job.id, settled.job.submitted_us, settled.job.tenant, settled.job.user)
    return replace(settled, spec=spec, job=job.eligible_as(settled.job), choices=choices)


def _without(settled: ResolvedJob, choices: Sequence[Choice]) -> ResolvedJob:
    """With the least amounts instead: a task without GPUs must request something."""
    for choice in choices:
        settled = _with(settled, choice.lowered_to(_LEAST[choice.name]))
    return settled
