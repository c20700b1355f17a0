"""Filling a cluster with jobs until it is full."""

from pathlib import Path

import pytest

from gpusquad import registry
from gpusquad.model.cluster import GIB, Card, Cluster, Node, grid
from gpusquad.model.job import Job, Request, Role, Share
from gpusquad.sim.fill import demand_of, draw, fill
from gpusquad.sim.traces import read
from gpusquad.sim.traces.openb import read_openb_nodes


def task(name: str, request: Request) -> Job:
    return Job(name, (Role("main", 1, request),))


def test_job_that_does_not_fit_is_dropped_and_later_jobs_are_placed():
    cluster = Cluster((Node("n0", (Card("c0"), Card("c1")), 8000, GIB),))
    jobs = [
        task("a", Request(gpus=1)),
        task("b", Request(gpus=2)),
        task("c", Request(share=Share(sm_milli=600))),
        task("d", Request(share=Share(sm_milli=500))),
        task("e", Request(cpu_milli=9000)),
        task("f", Request(share=Share(sm_milli=400))),
    ]
    result = fill(cluster, jobs, registry.create("place", "binpack"))
    assert (result.allocated_milli, result.capacity_milli, result.refused) == (2000, 2000, 3)
    assert result.allocation_ratio == 1.0
    assert result.curve[0] == (0.5, 0.5)
    assert result.curve[-1] == (2.25, 1.0)


def test_draw_stays_within_its_amount_and_depends_only_on_the_seed():
    jobs = [task("a", Request(gpus=1)), task("b", Request(gpus=3)), task("c", Request(cpu_milli=1))]
    drawn = draw(jobs, 100_000, seed=7)
    requested_milli = sum(job.gpu_milli for job in drawn)
    assert 127_000 < requested_milli <= 130_000
    assert [job.id for job in drawn] == [job.id for job in draw(jobs, 100_000, seed=7)]
    assert len({job.id for job in drawn}) == len(drawn)
    with pytest.raises(ValueError, match="none of the jobs"):
        draw(jobs[2:], 1000, seed=1)


def test_demand_is_the_frequency_of_each_shape():
    one, two = Request(gpus=1), Request(gpus=2)
    gang = Job("gang", (Role("a", 2, one), Role("b", 1, two)))
    assert demand_of([gang, task("x", one)]) == [(one, 0.75), (two, 0.25)]


def test_full_cluster_refuses_further_jobs():
    jobs = [task(f"j{i}", Request(gpus=1)) for i in range(20)]
    result = fill(grid("2x4"), jobs, registry.create("place", "spread"), demand_of(jobs))
    assert (result.allocated_milli, result.refused) == (8000, 12)


@pytest.mark.slow
def test_fragmentation_policy_reaches_the_published_allocation(shared_data: Path):
    """One draw of the default workload; the scoreboard has the mean of ten."""
    folder = shared_data / "alibaba-openb-2023"
    cluster = read_openb_nodes(folder / "openb_node_list_gpu_node.csv.gz")
    jobs = [row.job for row in read(folder / "openb_pod_list_default.csv.gz", "openb").jobs]
    drawn = draw(jobs, cluster.gpus * 1000, seed=42)
    assert fill(cluster, drawn, registry.create("place", "fragmentation"), demand_of(jobs)).allocation_ratio >= 0.953
