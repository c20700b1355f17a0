"""Does mode ``auto`` choose the mode that would have been best, on four recorded days with different goals?

Each day is a part of a public trace. Where the trace has no goals, they are added by rule, the same in every run:

- deadlines: Philly jobs with deadlines, as cut for Chronus (SoCC '21). Every 60th job; the 5.6 hours of the cut are
  stretched to a day. Objective: deadlines met.
- services: a day of Philly jobs as cut for Pollux. Every eighth job of one GPU is a service with a latency target.
  Objective: mean time from the submission of a service to its start.
- tenants: another Philly day, by its virtual clusters, one of which submits most of the jobs. Objective: the mean wait
  of a tenant, over the tenants that asked for at most an equal share of the GPU time. The others wait for themselves.
- plain: a third Philly day without tenants and goals. What remains is the order of the requests. Objective: how much
  later a job starts than in a replay in that order without backfill (mean; a job that starts sooner counts as 0).

Of the Philly days every third job is kept. The cluster has as many nodes of eight GPUs as the jobs, each started at
submission, would fill on average until the last submission. All modes predict with the service's predictor, which knows
nothing at the start of the day. Best in hindsight is the best of the modes that the rules of ``auto`` can choose; the
others are reported beside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from bench._play import side_by_side
from bench.claims import claim
from bench.data import data_path
from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import Cluster, grid
from gpusquad.model.job import Slo
from gpusquad.model.units import US_PER_S
from gpusquad.modes import AutomaticMode, Mode, load_mode
from gpusquad.modes.choice import DAY_US
from gpusquad.sim.outcome import Outcome
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.traces import TraceJob, read

NAME = "auto_mode"
SUMMARY = "mode auto beside every mode that it could have chosen, on four recorded days with different goals"
SLOW = True

AUTO = "auto"
OTHERS = ("jct", "predictive")
"""Modes that ``auto`` does not choose, for comparison."""
NODE_GPUS = 8
CHRONUS_EVERY, PHILLY_EVERY, SERVICE_EVERY = 25, 3, 8
SERVICE_DAY, TENANT_DAY, PLAIN_DAY = 52, 40, 79
LATENCY_US = 100_000
NOISE = 0.02
"""A mode within this fraction of the best counts as the best."""
MAX_CHANGES = 2
Starts = dict[str, float]
"""Job -> start in seconds."""


@dataclass(frozen=True)
class Ran:
    """One simulated day: its objective, mean job completion time and the modes that were chosen."""

    value: float
    mean_jct_h: float
    chosen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Day:
    """Jobs and objective of a day."""

    jobs: Callable[[], list[TraceJob]]
    objective: Callable[[list[Outcome], Cluster], float]
    label: str
    unit: str
    higher: bool = False


def run() -> list[dict]:
    modes = (*_choosable(), AUTO, *OTHERS)
    ran = side_by_side(play_day, [(day, mode) for day in DAYS for mode in modes])
    return [one for day in DAYS for one in claims(day, {mode: ran[day, mode] for mode in modes})]


def claims(name: str, ran: dict[str, Ran]) -> list[dict]:
    """The bar is the best in hindsight, less the noise. The baseline is the default mode."""
    day, auto = DAYS[name], ran[AUTO]
    values = [ran[mode].value for mode in _choosable()]
    bar = max(values) * (1 - NOISE) if day.higher else min(values) * (1 + NOISE)
    better = "higher" if day.higher else "lower"
    plain = ran[_choosable()[0]].value
    found = [claim(f"{name}: {AUTO}, {day.label}", auto.value, day.unit, better, bar=bar, baseline=plain)]
    found += [
        claim(f"{name}: {mode}, {day.label}", one.value, day.unit, better, baseline=plain)
        for mode, one in ran.items()
        if mode != AUTO
    ]
    plain_h = ran[_choosable()[0]].mean_jct_h
    found.append(claim(f"{name}: {AUTO}, mean JCT", auto.mean_jct_h, "h", "lower", baseline=plain_h))
    changes = len(auto.chosen) - 1
    found.append(claim(f"{name}: {' then '.join(auto.chosen)}; changes", changes, "", "lower", bar=MAX_CHANGES))
    return found


def play_day(task: tuple[str, str]) -> Ran:
    day, mode = DAYS[task[0]], load_mode(task[1])
    jobs = day.jobs()
    cluster, feed = cluster_for(jobs), PredictorFeed(mode.predictor or "combined", mode.uses)

    def use_quantiles(chosen: Mode) -> None:
        feed.uses = chosen.uses

    automatic = AutomaticMode(mode, lambda chosen: chosen.policies(), use_quantiles) if mode.rules else None
    result = simulate(Scenario(cluster, jobs, mode.policies(), **feed.parts(), choose=automatic))
    jct_us = [(one.ended_us or 0) - one.job.submitted_us for one in result.outcomes]
    chosen = tuple(one.mode for one in automatic.chosen) if automatic is not None else ()
    return Ran(day.objective(result.outcomes, cluster), float(np.mean(jct_us)) / US_PER_S / 3600, chosen)


def cluster_for(jobs: list[TraceJob]) -> Cluster:
    """As many nodes as the jobs would fill."""
    last_us = jobs[-1].job.submitted_us
    gpus = max(sum(_work_us(trace, last_us) for trace in jobs) / last_us, max(trace.job.gpus for trace in jobs))
    return grid(f"{-int(-gpus // NODE_GPUS)}x{NODE_GPUS}")


# -- the days ------------------------------------------------------------------------------------------------------


@cache
def deadlines_day() -> list[TraceJob]:
    cut = _by_time(read(data_path("chronus-philly-slo/trace_job_Philly_MIX1.csv.gz"), node_gpus=NODE_GPUS).jobs)
    cut = cut[::CHRONUS_EVERY]
    first_us = cut[0].job.submitted_us
    factor = DAY_US / (cut[-1].job.submitted_us - first_us)
    return [_without_tenant(_stretched(trace, first_us, factor)) for trace in cut]


def services_day() -> list[TraceJob]:
    jobs, singles = [], 0
    for trace in without_tenants(SERVICE_DAY):
        singles += trace.job.gpus == 1
        is_service = trace.job.gpus == 1 and singles % SERVICE_EVERY == 0
        slo = Slo(latency_us=LATENCY_US) if is_service else None
        jobs.append(replace(trace, job=replace(trace.job, slo=slo)))
    return jobs


def without_tenants(day: int) -> list[TraceJob]:
    return [_without_tenant(trace) for trace in philly_day(day)]


def _without_tenant(trace: TraceJob) -> TraceJob:
    """The virtual cluster as a user of one tenant, so that the predictor knows it."""
    return replace(trace, job=replace(trace.job, tenant="default", user=trace.job.tenant))


@cache
def philly_day(day: int) -> list[TraceJob]:
    jobs = _by_time(read(data_path("philly-jobs/philly.csv.gz"), node_gpus=NODE_GPUS).jobs)
    jobs = [trace for trace in jobs if trace.job.submitted_us // DAY_US == day][::PHILLY_EVERY]
    return [_stretched(trace, day * DAY_US, 1.0) for trace in jobs]


def _stretched(trace: TraceJob, first_us: int, factor: float) -> TraceJob:
    job = trace.job
    at_us = round((job.submitted_us - first_us) * factor)
    slo = job.slo
    if slo is not None and slo.deadline_us is not None:
        slo = replace(slo, deadline_us=at_us + round((slo.deadline_us - job.submitted_us) * factor))
    return replace(trace, run_us=round(trace.run_us * factor), job=replace(job, submitted_us=at_us, slo=slo))


def _by_time(jobs: list[TraceJob]) -> list[TraceJob]:
    return sorted(jobs, key=lambda trace: trace.job.submitted_us)


# -- their objectives ----------------------------------------------------------------------------------------------


def deadlines_met(outcomes: list[Outcome], cluster: Cluster) -> float:
    asked = [(one, one.job.slo.deadline_us) for one in outcomes if one.job.slo and one.job.slo.deadline_us]
    return float(np.mean([(one.ended_us or 0) <= deadline_us for one, deadline_us in asked]))


def service_delay_min(outcomes: list[Outcome], cluster: Cluster) -> float:
    return float(np.mean([one.wait_us or 0 for one in outcomes if one.job.slo])) / US_PER_S / 60


def light_tenants_wait_h(outcomes: list[Outcome], cluster: Cluster) -> float:
    waits: dict[str, list[int]] = {}
    work: Counter[str] = Counter()
    for one in outcomes:
        waits.setdefault(one.job.tenant, []).append(one.wait_us or 0)
        work[one.job.tenant] += min(one.run_us, DAY_US - one.job.submitted_us) * one.job.gpus
    light = [tenant for tenant in waits if work[tenant] <= cluster.gpus * DAY_US / len(waits)]
    return float(np.mean([np.mean(waits[tenant]) for tenant in light])) / US_PER_S / 3600


def pushed_back_min(outcomes: list[Outcome], cluster: Cluster) -> float:
    """Beside a replay in the order of the requests without backfill."""
    jobs = [TraceJob(one.job, one.run_us) for one in outcomes]
    strict = simulate(Scenario(cluster, jobs, make_policies("fifo", "none", "binpack"), exact))
    in_order = {one.job.id: one.started_us or 0 for one in strict.outcomes}
    later_us = [max(0, (one.started_us or 0) - in_order[one.job.id]) for one in outcomes]
    return float(np.mean(later_us)) / US_PER_S / 60


def _work_us(trace: TraceJob, until_us: int) -> int:
    return min(trace.run_us, until_us - trace.job.submitted_us) * trace.job.gpus


def _choosable() -> tuple[str, ...]:
    rules = load_mode(AUTO).rules
    assert rules is not None
    return rules.modes


DAYS = {
    "deadlines": Day(deadlines_day, deadlines_met, "deadlines met", "", higher=True),
    "services": Day(services_day, service_delay_min, "mean delay of services", "min"),
    "tenants": Day(lambda: philly_day(TENANT_DAY), light_tenants_wait_h, "mean wait of light tenants", "h"),
    "plain": Day(lambda: without_tenants(PLAIN_DAY), pushed_back_min, "mean delay by later jobs", "min"),
}
