"""Jobs, past runs and offline estimates for tests of predictions from similar jobs."""

from __future__ import annotations

from typing import Any

from gpusquad.model.job import Job, OfflineEstimate, Request, Role
from gpusquad.model.prediction import PastRun
from gpusquad.predict.similar_runs import RunSummary

GIB = 2**30
S = 1_000_000


def job(name: str = "resnet50", gpus: int = 1, number: int = 0, *, request: Request | None = None, **rest: Any) -> Job:
    role = Role("task", 1, request or Request(gpus=gpus))
    return Job(f"{name}-{gpus}-{number}", (role,), name=name, **({"user": "ada"} | rest))


def past_run(of_job: Job, run_s: float = 100, **rest: Any) -> PastRun:
    if "peak_gib" in rest:
        rest["peak_memory_bytes"] = round(rest.pop("peak_gib") * GIB)
    return PastRun(of_job, round(run_s * S), **rest)


def run_summary(gpus: int = 1, run_s: float = 100, how: Any = "succeeded", number: int = 0, **rest: Any) -> RunSummary:
    if "peak_gib" in rest:
        rest["peak_bytes"] = round(rest.pop("peak_gib") * GIB)
    return RunSummary(f"{gpus}-{number}", gpus, round(run_s * S), how, number, **rest)


def offline_estimate(**given: Any) -> OfflineEstimate:
    by_gpus = tuple((gpus, round(s * S)) for gpus, s in sorted(given.pop("by_gpus", {}).items()))
    return OfflineEstimate(by_gpus=by_gpus, **given)
