"""Two one-GPU nodes and eight jobs of length t (Figure 1): whole cards take exactly 4t, shared cards less."""

import pytest

from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import Card, Cluster, Node
from gpusquad.model.job import Job, Profile, Request, Role, Share
from gpusquad.model.units import US_PER_S
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.slowdown import by_profile
from gpusquad.sim.traces import TraceJob

T_US = 1000 * US_PER_S
GB = 10**9
KINDS = {"L": (8.3, 0.23), "G": (0.6, 0.72), "T": (3.5, 0.88), "Q": (5.3, 0.467)}
"""Card memory in GB and utilisation of four applications."""
CLUSTER = Cluster(tuple(Node(f"n{n}", (Card(f"n{n}/0", memory_bytes=12 * GB),), 8000, 64 * GB) for n in range(2)))


def jobs(shared: bool) -> list[TraceJob]:
    traces = []
    for kind, (memory_gb, utilisation) in KINDS.items():
        share = Share(memory_bytes=round(memory_gb * GB))
        request = Request(share=share) if shared else Request(gpus=1)
        for copy in "12":
            job = Job(kind + copy, (Role("main", 1, request),), app=kind, profile=Profile(utilisation))
            traces.append(TraceJob(job, T_US))
    return traces


def run(place: str, shared: bool) -> SimulationResult:
    return simulate(Scenario(CLUSTER, jobs(shared), make_policies("fifo", "easy", place), exact, rate=by_profile))


def makespan_us(result: SimulationResult) -> int:
    assert all(outcome.end == "succeeded" for outcome in result.outcomes)
    return max(outcome.ended_us or 0 for outcome in result.outcomes)


@pytest.mark.parametrize("place", ["binpack", "balance", "standalone", "spread"])
def test_makespan_on_whole_cards_is_four_run_times(place):
    assert makespan_us(run(place, shared=False)) == 4 * T_US


@pytest.mark.parametrize("place", ["binpack", "balance", "standalone", "spread"])
def test_makespan_on_shared_cards_is_shorter_but_at_least_the_total_work(place):
    total_us = makespan_us(run(place, shared=True))
    total_utilisation = sum(2 * utilisation for _, utilisation in KINDS.values())
    assert total_utilisation / 2 * T_US <= total_us < 4 * T_US


def test_no_job_runs_faster_than_alone():
    for outcome in run("binpack", shared=True).outcomes:
        assert outcome.ended_us is not None
        assert outcome.started_us is not None
        assert outcome.ended_us - outcome.started_us >= T_US
