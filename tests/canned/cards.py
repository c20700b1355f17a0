"""Nodes and cards as the API shows them, and how a card is divided."""

from __future__ import annotations

from typing import Any

from tests.canned.jobs import HOSTILE, job_id
from tests.canned.units import DAY_S, GIB, HOUR_S


def all_nodes(now_s: float) -> list[dict[str, Any]]:
    nodes = [_node(f"n{number}", now_s) for number in range(4)]
    nodes[3] |= {"up": False, "drained": True}
    nodes[2]["windows"] = [window(now_s)]
    cards = nodes[0]["cards"]
    cards[0] |= {"state": "busy", "jobs": [{"id": job_id(1), "name": "vgg16-imagenet", "user": "ana", "share": None}]}
    cards[1] |= {"state": "shared", "jobs": [
        {"id": job_id(3), "name": HOSTILE, "user": "ana",
         "share": {"sm": 0.25, "memory_bytes": 10 * GIB, "isolation": "shared"}},
        {"id": None, "name": None, "user": None, "share": {"sm": 0.5, "memory_bytes": None, "isolation": "shared"}},
    ]}  # fmt: skip
    cards[2] |= {"state": "taken_outside", "cause": "pid 4242 (python) of carol, not started by gpusquad"}
    cards[3] |= {"state": "cordoned", "cause": "ECC errors", "sample": None}
    return nodes


def _node(name: str, now_s: float) -> dict[str, Any]:
    cards = [
        {"id": f"{name}/{index}", "uuid": f"GPU-{name}-{index}", "model": "NVIDIA H100 80GB HBM3", "index": index,
         "memory_bytes": 80 * GIB, "state": "free", "cause": "", "jobs": [], "simulated": False,
         "sample": sample(now_s, index), "self_test": None}
        for index in range(8)
    ]  # fmt: skip
    return {
        "id": name, "rack": "", "up": True, "drained": False, "cpu_milli": 192_000, "cpu_free_milli": 64_500,
        "memory_bytes": 2048 * GIB, "memory_free_bytes": 900 * GIB, "cards": cards, "windows": [],
    }  # fmt: skip


def sample(now_s: float, index: int) -> dict[str, Any]:
    return {"at_s": now_s - 2, "utilisation_ratio": index / 7, "memory_utilisation_ratio": index / 14,
            "memory_used_bytes": index * 10 * GIB, "power_w": 80.0 + 85 * index, "temperature_c": 40.0 + 4 * index,
            "sm_clock_mhz": 1500.0}  # fmt: skip


def window(now_s: float) -> dict[str, Any]:
    return {"id": "w1", "nodes": ["n2", "n3"], "start_s": now_s + DAY_S, "end_s": now_s + DAY_S + 4 * HOUR_S,
            "by": "root", "cause": "new driver"}  # fmt: skip


def division(now_s: float, index: int, policy: str = "slo", own: bool = True) -> dict[str, Any]:
    return {
        "id": f"n0/{index}", "uuid": None, "node": "n0", "index": index, "model": "NVIDIA H200",
        "memory_bytes": 141 * GIB, "simulated": False,
        "divide": {
            "policy": policy, "own": own, "of_mode": "jct", "revision": 3 if own else None,
            "since_s": now_s - 60 if own else None, "by": "root" if own else "", "note": "demo" if own else "",
            "effect": "live" if own else "unused", "message": "the card is divided by it now" if own else
            "the card is not shared now; the policy applies when it is",
        },
    }  # fmt: skip


def divided() -> dict[str, Any]:
    mine = {
        "job": job_id(3), "name": HOSTILE, "user": "ana", "id": "uid/main", "groups": 5, "sm_ratio": 1 / 3,
        "used_bytes": 10 * GIB, "quota_bytes": 20 * GIB, "peak_bytes": 12 * GIB, "weight": 2.0, "priority": 1,
        "slo": {"latency_us": 20_000}, "attainment_ratio": 0.972, "credit_us": 400, "waiting": 1, "waited_s": 3.5,
        "is_idle": False, "processes": 2, "isolation": "isolated", "note": "", "iterations_per_s": 2.471,
    }  # fmt: skip
    hidden = dict.fromkeys(mine) | {
        "groups": 0, "sm_ratio": 1.0, "used_bytes": 3 * GIB, "quota_bytes": 0, "peak_bytes": 3 * GIB,
        "isolation": "shared", "note": "",
    }  # fmt: skip
    unmanaged = [{"pid": 4242, "name": HOSTILE, "memory_bytes": GIB}]
    free = mine | {"name": "batch", "credit_us": None, "waiting": 0, "is_idle": True, "slo": {}, "weight": 1.0,
                   "iterations_per_s": None}  # fmt: skip
    return {
        "policy": "slo", "configuration": "semi-spatial", "length_us": 2500, "squads": 12345, "groups": 15,
        "why": f"{HOSTILE} is at risk", "failure": "", "pool": "one MPS server",
        "context_bytes": 526 << 20, "tenants": [mine, hidden, free],
        "unmanaged_count": 2, "unmanaged": unmanaged, "stranger_count": 2, "strangers": unmanaged, "rule": "report",
    }  # fmt: skip
