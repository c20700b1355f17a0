"""A job that slows its neighbour down starts only if this delays no reservation."""

from __future__ import annotations

from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role, Share
from gpusquad.model.units import US_PER_S
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.traces import TraceJob


def job(name: str, request: Request, run_s: int, at_s: int) -> TraceJob:
    return TraceJob(Job(name, (Role("w", 1, request),), submitted_us=at_s * US_PER_S), run_s * US_PER_S)


HALF = Request(share=Share(sm_milli=500))


def starts(*jobs: TraceJob) -> dict[str, float]:
    scenario = Scenario(grid("1x1"), jobs, make_policies(), exact, rate=lambda own, others, gpu: 0.5 if others else 1.0)
    result = simulate(scenario)
    assert all(us == 0 for us in result.late_us.values())
    return {o.job.id: (o.started_us or 0) / US_PER_S for o in result.outcomes}


def test_job_waits_when_it_would_slow_its_neighbour_past_a_reservation() -> None:
    start_times = starts(job("first", HALF, 100, 0), job("whole", Request(gpus=1), 10, 1), job("short", HALF, 20, 2))
    assert start_times == {"first": 0, "whole": 100, "short": 110}


def test_job_that_slows_its_neighbour_starts_when_there_is_no_reservation() -> None:
    assert starts(job("first", HALF, 100, 0), job("short", HALF, 20, 2))["short"] == 2
