"""Runs in a world of virtual time that are looked at while they run, as the agent does."""

from __future__ import annotations

from collections.abc import Sequence

from gpusquad.model.cluster import GIB, Card, Cluster, Node
from tests.server.services.world import SECOND_US, World

EIGHT = Cluster((Node("n0", tuple(Card(f"n0/{i}", "H100", 80 * GIB) for i in range(8)), 64_000, 512 * GIB),))


def run(world: World, name: str, gpus: int = 1, *, seconds: int = 100, peak_gib: float | None = None,
        busy: Sequence[float] = (), cores: float | None = None, how: str = "succeeded", **file) -> str:  # fmt: skip
    """One job from its submission to its end, looked at every ten seconds."""
    job_id = world.submit(name=name, gpus=gpus, **file)
    world.engine.run_us[name], world.engine.ends_as[name] = seconds * SECOND_US, how
    began_us = world.clock.at_us
    world.at(began_us)
    cards = [card for task in world.scheduler.row(job_id).placement["tasks"] for card in task["cards"]]
    for at_s in range(10, seconds, 10):
        world.at(began_us + at_s * SECOND_US)
        look(world, job_id, dict(zip(cards, busy or [0.9] * gpus, strict=True)), peak_gib, cores)
    world.at(began_us + seconds * SECOND_US)
    assert world.state(job_id) == how
    return job_id


def look(world: World, job_id: str, busy: dict[str, float], peak_gib: float | None, cores: float | None) -> None:
    held = [] if peak_gib is None else [{"pid": 1, "job": job_id, "attempt": 0, "memory_bytes": round(peak_gib * GIB)}]
    sampled = [{"id": card, "utilisation_ratio": ratio, "processes": held} for card, ratio in busy.items()]
    one = {"job": job_id, "attempt": 0, "cpu_ratio": cores}
    world.scheduler.watcher.hear({"kind": "samples", "at_us": world.clock.at_us, "cards": sampled, "runs": [one]})
    world.settle()
