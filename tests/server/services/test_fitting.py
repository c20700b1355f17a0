"""``auto`` for CPU and main memory never makes a job impossible that fits without it."""

from __future__ import annotations

from typing import Any

import pytest

from gpusquad.model.cluster import GIB, Card, Cluster, Node
from gpusquad.server.errors import JobRefused
from tests.server.services.sampled_runs import run
from tests.server.services.world import World

FEW_CORES = Cluster((Node("n0", tuple(Card(f"n0/{i}", "H100", 80 * GIB) for i in range(8)), 2_000, 4 * GIB),))
OPEN: dict[str, Any] = {"cpu": "auto", "memory": "auto"}


@pytest.fixture
def world(tmp_path, database) -> World:
    return World(tmp_path, FEW_CORES, database)


def chosen(world: World, **file) -> dict:
    resolved = world.scheduler.row(world.submit(**file)).resolved
    assert resolved is not None
    return {one["field"]: one for one in resolved["choices"]}


@pytest.mark.parametrize("count", [1, 3, 8])
def test_gang_gets_the_fair_share_of_a_node_with_few_cores(world: World, count: int) -> None:
    assert chosen(world, count=count, gpus="auto", cpu="auto")["cpu"]["amount"] == 250


def test_default_is_lowered_until_the_gang_fits(world: World) -> None:
    found = chosen(world, count=8, gpus=0, **OPEN)
    assert (found["cpu"]["amount"], found["memory"]["amount"]) == (250, GIB // 2)
    assert "lowered from 1, which does not fit the cluster" in found["cpu"]["why"]


@pytest.mark.parametrize("tasks", [2, 8])
def test_defaults_of_tasks_without_gpus_are_lowered_until_all_fit(world: World, tasks: int) -> None:
    assert chosen(world, count=tasks, gpus=None, cpu="auto")["cpu"]["amount"] == 2000 // max(tasks, 2)
    roles = [{"name": "learner", "gpus": 2} | OPEN, {"name": "actor", "count": tasks} | OPEN]
    found = chosen(world, gpus=None, roles=roles)
    assert 0 < found["roles[1].cpu"]["amount"] * tasks + found["roles[0].cpu"]["amount"] <= 2000
    assert 0 < found["roles[1].memory"]["amount"] * tasks + found["roles[0].memory"]["amount"] <= 4 * GIB


def test_estimate_is_lowered_until_the_gang_fits(world: World) -> None:
    found = chosen(world, count=2, expect={"cpu": 2, "host_memory": "3GiB"}, **OPEN)
    assert (found["cpu"]["amount"], found["cpu"]["source"]) == (1000, "estimate")
    assert found["memory"]["amount"] <= 2 * GIB


def test_choice_that_is_not_to_blame_is_kept(world: World) -> None:
    found = chosen(world, count=2, expect={"cpu": 2, "host_memory": "1GiB"}, **OPEN)
    assert found["cpu"]["amount"] == 1000
    assert "lowered" not in found["memory"]["why"]


def test_refusal_names_the_choice_from_past_runs(world: World) -> None:
    for number in range(4):
        run(world, f"resnet50-run{number}", cores=1.5)
    with pytest.raises(JobRefused, match=r"cpu: auto chose 2 \(.* 4 runs of resnet50"):
        world.submit(name="resnet50-run9", count=2, cpu="auto")


def test_refusal_for_another_cause_does_not_name_auto(world: World) -> None:
    with pytest.raises(JobRefused) as refused:
        world.submit(gpus=9, **OPEN)
    assert "auto" not in str(refused.value)
    assert "requests 9 GPUs" in str(refused.value)
