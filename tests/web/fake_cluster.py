"""Simulated API answers of a large cluster with racks, many nodes and busy cards."""

from __future__ import annotations

import random
from typing import Any

GIB = 2**30
JOB_NAMES = (
    "llama-sft",
    "vit-large",
    "rl-rollout",
    "asr-train",
    "eval-nightly",
    "diffusion-xl",
    "tokenizer",
    "embed-batch",
)
GANG_SIZES = (1, 2, 4, 8, 16)


class FakeCluster:
    """Cluster of racks of nodes with eight cards. Each answer has different samples."""

    def __init__(self, racks: int, nodes: int, seed: int = 7) -> None:
        self._rng = random.Random(seed)
        self.nodes = [
            self._node(f"r{rack + 1}", f"gpu-{rack + 1}{node + 1:02}") for rack in range(racks) for node in range(nodes)
        ]

    def route_requests(self, page: Any) -> None:
        page.route("**/api/v1/nodes", lambda route: route.fulfill(json={"items": self._sampled_nodes(), "next": None}))
        page.route("**/api/v1/cluster", lambda route: route.fulfill(json=self._summary()))

    def _node(self, rack: str, name: str) -> dict[str, Any]:
        cards: list[dict[str, Any]] = []
        while len(cards) < 8:
            cards += self._gang(name, len(cards))[: 8 - len(cards)]
        return {
            "id": name, "rack": rack, "up": True, "drained": False, "cpu_milli": 128_000, "cpu_free_milli": 40_000,
            "memory_bytes": 1024 * GIB, "memory_free_bytes": 400 * GIB, "cards": cards, "windows": [],
        }  # fmt: skip

    def _gang(self, node: str, first: int) -> list[dict[str, Any]]:
        """Return adjacent cards of one job, or one card that is free, shared or unavailable."""
        kind = self._rng.choices(("busy", "shared", "free", "cordoned", "taken_outside"), (12, 3, 4, 0.4, 0.3))[0]
        jobs = [self._job(kind) for _ in range({"busy": 1, "shared": 2}.get(kind, 0))]
        size = self._rng.choice(GANG_SIZES) if kind == "busy" else 1
        cause = {
            "cordoned": "ECC errors: 12 uncorrected in an hour",
            "taken_outside": "pid 4711 (python) of nobody's job",
        }
        return [
            {"id": f"{node}/{first + i}", "uuid": None, "model": "H100 SXM", "memory_bytes": 80 * GIB,
             "index": first + i, "state": kind, "cause": cause.get(kind, ""), "jobs": jobs, "sample": None,
             "simulated": False}
            for i in range(size)
        ]  # fmt: skip

    def _job(self, kind: str) -> dict[str, Any]:
        name = f"{self._rng.choice(JOB_NAMES)}-{self._rng.randrange(90)}"
        share = {"sm": 0.5, "memory_bytes": 36 * GIB, "isolation": "shared"} if kind == "shared" else None
        return {"id": f"01{name}", "name": name, "user": self._rng.choice(("ann", "bob", "mia")), "share": share}

    def _sampled_nodes(self) -> list[dict[str, Any]]:
        for node in self.nodes:
            for card in node["cards"]:
                card["sample"] = self._sample(card["state"])
        return self.nodes

    def _sample(self, state: str) -> dict[str, float] | None:
        if state == "cordoned":
            return None
        busy = self._rng.uniform(0.35, 1.0) if state not in ("free",) else 0.0
        return {
            "utilisation_ratio": busy, "memory_used_bytes": (4 + busy * 68) * GIB if busy else 0.4 * GIB,
            "power_w": 70 + busy * 600, "temperature_c": 31 + busy * 40,
        }  # fmt: skip

    def _summary(self) -> dict[str, Any]:
        free = [sum(card["state"] == "free" for card in node["cards"]) for node in self.nodes]
        states = [card["state"] for node in self.nodes for card in node["cards"]]
        return {
            "gpus": len(states), "free": sum(free),
            "usable": {str(n): sum(free_on_node // n for free_on_node in free) for n in (1, 2, 4, 8)},
            "unhealthy": states.count("cordoned"), "taken_outside": states.count("taken_outside"), "simulated": False,
            "mode": "predictive",
        }  # fmt: skip
