"""Sweeps and bursts of separate requests are placed as one batch, by the real service behind its API.

The applications, cards and placements are those of a 2020 paper (KNOM Review 23-1), see ``tests.core.test_batch``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from gpusquad.server.services.runtime.loop import Burst
from tests.core.test_batch import APPLICATIONS, FIGURE_4, paper_cluster
from tests.server.rig import Rig
from tests.server.services.world import World

WAIT_S = 600
Service = tuple[Rig, World]


@pytest.fixture(params=FIGURE_4)
def service(request, make_rig: Callable[..., Rig], tmp_path: Path) -> Iterator[Service]:
    """A service that decides in its own thread, with four cards of 12 GB and the place policy."""
    worlds: list[World] = []

    def make(database, clock):
        worlds.append(World(tmp_path, paper_cluster(), database))
        loop = worlds[0].scheduler._context.loop
        loop._burst = Burst(WAIT_S, WAIT_S)  # until the test ends it, however slow the machine is
        loop.start()
        return worlds[0].scheduler

    rig = make_rig(make_scheduler=make)
    assert rig.call("PUT", "policy", "root", json={"place": request.param}).status_code == 200
    yield rig, worlds[0]
    worlds[0].scheduler.close()


def job_file(name: str) -> dict[str, Any]:
    memory_gb, utilisation = APPLICATIONS[name]
    return {"name": name, "command": ["true"], "app": name, "share": {"memory": f"{memory_gb}GB"}, "estimate": 60,
            "profile": {"utilisation": utilisation, "memory": f"{memory_gb}GB"}}  # fmt: skip


def submit_sweep(rig: Rig, names: list[str]) -> None:
    """All jobs in one request."""
    points = [
        {"app": name, "memory": f"{APPLICATIONS[name][0]}GB", "busy": str(APPLICATIONS[name][1])} for name in names
    ]
    file = job_file(names[0]) | {
        "name": "${app}",
        "app": "${app}",
        "share": {"memory": "${memory}"},
        "profile": {"utilisation": "${busy}", "memory": "${memory}"},
        "sweep": points,
    }
    assert rig.post("jobs", "ann", json={"file": file}).status_code == 201


def submit_burst(rig: Rig, names: list[str]) -> None:
    """One request for each job, one after another."""
    for name in names:
        assert rig.post("jobs", "ann", json={"file": job_file(name)}).status_code == 201


def cards_of(service: Service) -> list[list[str]]:
    """Applications on each card, after a pass has decided. Then they end."""
    rig, world = service
    for _ in range(2):  # the pass that decides, and after it has launched the jobs the one that hears of their starts
        world.scheduler._context.loop.call(lambda: None)
    jobs = rig.get("jobs", "ann", params={"state": ["starting", "running"]}).json()["items"]
    apps: dict[str, list[str]] = {card.id: [] for card in paper_cluster().nodes[0].cards}
    for job in jobs:
        apps[job["placement"][0]["cards"][0]].append(job["name"])
    for job_id, attempt in list(world.engine.running):
        world.engine.end(job_id, attempt)
    return [sorted(each) for each in apps.values()]


@pytest.mark.parametrize("submit", [submit_sweep, submit_burst])
def test_figure_4_comes_out_in_every_order_of_submission(service: Service, submit: Callable, request) -> None:
    expected = sorted(FIGURE_4[request.node.callspec.params["service"]])
    for kinds in permutations(APPLICATIONS):
        submit(service[0], [name for name in kinds for _ in range(2)])
        assert sorted(cards_of(service)) == expected, kinds
