"""Figure 1: two one-GPU nodes and eight jobs of length t. Whole cards take exactly 4t, shared cards less."""

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
    made = []
    for kind, (memory_gb, utilisation) in KINDS.items():
        share = Share(memory_bytes=round(memory_gb * GB))
        request = Request(share=share) if shared else Request(gpus=1)
        for copy in "12":
            job = Job(kind + copy, (Role("main", 1, request),), app=kind, profile=Profile(utilisation))
            made.append(TraceJob(job, T_US))
    return made


def run(place: str, shared: bool) -> SimulationResult:
    return simulate(Scenario(CLUSTER, jobs(shared), make_policies("fifo", "easy", place), exact, rate=by_profile))


def makespan_us(result: SimulationResult) -> int:
    assert all(outcome.end == "succeeded" for outcome in result.outcomes)
    return max(outcome.ended_us or 0 for outcome in result.outcomes)


@pytest.mark.parametrize("place", ["binpack", "balance", "standalone", "spread"])
def test_whole_cards_take_exactly_four_lengths(place):
    assert makespan_us(run(place, shared=False)) == 4 * T_US


@pytest.mark.parametrize("place", ["binpack", "balance", "standalone", "spread"])
def test_shared_cards_take_less_and_no_less_than_the_work_there_is(place):
    took_us = makespan_us(run(place, shared=True))
    busy = sum(2 * utilisation for _, utilisation in KINDS.values())
    assert busy / 2 * T_US <= took_us < 4 * T_US


def test_nobody_runs_faster_than_alone():
    for outcome in run("binpack", shared=True).outcomes:
        assert outcome.ended_us is not None
        assert outcome.started_us is not None
        assert outcome.ended_us - outcome.started_us >= T_US
