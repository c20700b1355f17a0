"""Complete runs in virtual time with agent samples."""

from __future__ import annotations

from collections.abc import Sequence

from gpusquad.model.cluster import GIB, Card, Cluster, Node
from tests.server.services.world import SECOND_US, World

EIGHT = Cluster((Node("n0", tuple(Card(f"n0/{i}", "H100", 80 * GIB) for i in range(8)), 64_000, 512 * GIB),))


def run(world: World, name: str, gpus: int = 1, *, seconds: int = 100, peak_gib: float | None = None,
        busy: Sequence[float] = (), cores: float | None = None, how: str = "succeeded", **file) -> str:  # fmt: skip
    """Run one job from submission to end, with a sample every ten seconds."""
    job_id = world.submit(name=name, gpus=gpus, **file)
    world.engine.run_us[name], world.engine.ends_as[name] = seconds * SECOND_US, how
    started_us = world.clock.at_us
    world.at(started_us)
    cards = [card for task in world.scheduler.row(job_id).placement["tasks"] for card in task["cards"]]
    for at_s in range(10, seconds, 10):
        world.at(started_us + at_s * SECOND_US)
        send_sample(world, job_id, dict(zip(cards, busy or [0.9] * gpus, strict=True)), peak_gib, cores)
    world.at(started_us + seconds * SECOND_US)
    assert world.state(job_id) == how
    return job_id


def send_sample(world: World, job_id: str, busy: dict[str, float], peak_gib: float | None, cores: float | None) -> None:
    processes = (
        [] if peak_gib is None else [{"pid": 1, "job": job_id, "attempt": 0, "memory_bytes": round(peak_gib * GIB)}]
    )
    sampled = [{"id": card, "utilisation_ratio": ratio, "processes": processes} for card, ratio in busy.items()]
    run_sample = {"job": job_id, "attempt": 0, "cpu_ratio": cores}
    world.scheduler.watcher.hear(
        {"kind": "samples", "at_us": world.clock.at_us, "cards": sampled, "runs": [run_sample]}
    )
    world.settle()
