"""Answers of a large cluster, for what one machine of simulated cards cannot show: racks, many nodes, busy cards."""

from __future__ import annotations

import random
from typing import Any

GIB = 2**30
NAMES = (
    "llama-sft",
    "vit-large",
    "rl-rollout",
    "asr-train",
    "eval-nightly",
    "diffusion-xl",
    "tokenizer",
    "embed-batch",
)
GANGS = (1, 2, 4, 8, 16)


class PretendCluster:
    """``racks`` of nodes with eight cards; every look sees other readings. Put in the way of a page's questions."""

    def __init__(self, racks: int, nodes: int, seed: int = 7) -> None:
        self._dice = random.Random(seed)
        self.nodes = [
            self._node(f"r{rack + 1}", f"gpu-{rack + 1}{node + 1:02}") for rack in range(racks) for node in range(nodes)
        ]

    def stand_in(self, page: Any) -> None:
        page.route("**/api/v1/nodes", lambda route: route.fulfill(json={"items": self._look(), "next": None}))
        page.route("**/api/v1/cluster", lambda route: route.fulfill(json=self._sums()))

    def _node(self, rack: str, name: str) -> dict[str, Any]:
        cards: list[dict[str, Any]] = []
        while len(cards) < 8:
            cards += self._gang(name, len(cards))[: 8 - len(cards)]
        return {
            "id": name, "rack": rack, "up": True, "drained": False, "cpu_milli": 128_000, "cpu_free_milli": 40_000,
            "memory_bytes": 1024 * GIB, "memory_free_bytes": 400 * GIB, "cards": cards, "windows": [],
        }  # fmt: skip

    def _gang(self, node: str, first: int) -> list[dict[str, Any]]:
        """Neighbouring cards of one job, or one card that is free, shared or out of use."""
        kind = self._dice.choices(("busy", "shared", "free", "cordoned", "taken_outside"), (12, 3, 4, 0.4, 0.3))[0]
        jobs = [self._job(kind) for _ in range({"busy": 1, "shared": 2}.get(kind, 0))]
        size = self._dice.choice(GANGS) if kind == "busy" else 1
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
        name = f"{self._dice.choice(NAMES)}-{self._dice.randrange(90)}"
        share = {"sm": 0.5, "memory_bytes": 36 * GIB, "isolation": "shared"} if kind == "shared" else None
        return {"id": f"01{name}", "name": name, "user": self._dice.choice(("ann", "bob", "mia")), "share": share}

    def _look(self) -> list[dict[str, Any]]:
        for node in self.nodes:
            for card in node["cards"]:
                card["sample"] = self._sample(card["state"])
        return self.nodes

    def _sample(self, state: str) -> dict[str, float] | None:
        if state == "cordoned":
            return None
        busy = self._dice.uniform(0.35, 1.0) if state not in ("free",) else 0.0
        return {
            "utilisation_ratio": busy, "memory_used_bytes": (4 + busy * 68) * GIB if busy else 0.4 * GIB,
            "power_w": 70 + busy * 600, "temperature_c": 31 + busy * 40,
        }  # fmt: skip

    def _sums(self) -> dict[str, Any]:
        free = [sum(card["state"] == "free" for card in node["cards"]) for node in self.nodes]
        states = [card["state"] for node in self.nodes for card in node["cards"]]
        return {
            "gpus": len(states), "free": sum(free),
            "usable": {str(n): sum(one // n for one in free) for n in (1, 2, 4, 8)},
            "unhealthy": states.count("cordoned"), "taken_outside": states.count("taken_outside"), "simulated": False,
            "mode": "predictive",
        }  # fmt: skip
