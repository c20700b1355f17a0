"""Jobs as the API shows them: in the queue, on cards, and what is told of one."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tests.canned.units import HOUR_S, MINUTE_S

RECORD = {"count": 120, "within_ratio": 0.91, "median_ratio": 0.14}
NO_BLOCK = ("no_block", "needs 8 GPUs on one node, the largest free block is 5")
HOSTILE = "<img src=x onerror=alert(1)> [red]x[/red] \x1b[31mred\x1b[2J\u202egnp.exe"
_QUEUE_ONLY = ("end", "hang_warnings", "position", "eta_s", "eta_high_s", "promised_s", "reason")


def job(now_s: float, number: int, name: str, state: str = "pending", **more: Any) -> dict[str, Any]:
    """A job as the API shows it."""
    runs = state in ("running", "starting", "stopping")
    view = {
        "id": job_id(number), "name": name, "tenant": "vision", "user": "ana", "queue": "", "group": None,
        "state": state, "attempt": 0, "priority": "normal", "lane": "", "gpus": 2, "share": None, "tasks": 1,
        "submitted_s": now_s - 2 * HOUR_S, "eligible_s": None if state == "held" else now_s - 2 * HOUR_S,
        "started_s": now_s - HOUR_S if runs else None, "ended_s": None, "cause": "",
        "placement": [{"task": 0, "node": "n0", "cards": ["n0/0", "n0/1"]}] if runs else [],
        "result": None, "progress": None, "forecast": run_time(5400.0, 9000.0, "history"),
        "retries_left": 0, "preemptions": 0, "after": [], "losses": 0, "next_attempt_s": None,
    }  # fmt: skip
    return view | more


def run_time(mid_s: float, high_s: float, source: str) -> dict[str, Any]:
    return {"mid_s": mid_s, "high_s": high_s, "source": source, "confidence": 0.75}


def job_id(number: int) -> str:
    """Ids of one hour share their start, as ULIDs do."""
    return f"01jcp6m8qwz4t7y2k9{number:04d}bxdf"


def queued(now_s: float, number: int, name: str, position: int, eta_min: float | None, why: tuple, **more: Any) -> dict:
    eta_s = None if eta_min is None else now_s + eta_min * MINUTE_S
    high_s = None if eta_min is None else now_s + 2 * eta_min * MINUTE_S
    place = {"position": position, "eta_s": eta_s, "eta_high_s": high_s, "promised_s": None}
    place["reason"] = {"code": why[0], "message": why[1]}
    return job(now_s, number, name, **more) | place


def on_cards(view: dict[str, Any]) -> dict[str, Any]:
    """A running job in the queue: with its end by the run time that was predicted."""
    view = {"hang_warnings": []} | view
    run = view["forecast"]
    if run is None or view["started_s"] is None:
        return view | {"end": None}
    mid_s, high_s = (view["started_s"] + run[name] for name in ("mid_s", "high_s"))
    return view | {"end": {"mid_s": mid_s, "high_s": high_s, "source": run["source"]}}


def as_job(view: dict[str, Any]) -> dict[str, Any]:
    return {name: deepcopy(value) for name, value in view.items() if name not in _QUEUE_ONLY}


def progress(now_s: float, ratio: float) -> dict[str, Any]:
    return {"step": 100 * ratio, "total": 100.0, "ratio": ratio, "at_s": now_s - 5}


def hang_warning(now_s: float) -> dict[str, Any]:
    return {"rule": "silent", "message": "no sign of life for 12m: no new output", "cure": "check its logs",
            "since_s": now_s - 12 * MINUTE_S, "warned_s": now_s - 2 * MINUTE_S,
            "stops_s": now_s + 2 * MINUTE_S}  # fmt: skip


def reasons() -> list[dict[str, Any]]:
    return [
        {"code": "no_block", "message": NO_BLOCK[1], "cure": "ask for 4 GPUs on each of two nodes",
         "numbers": {"needed": 8, "largest": 5}, "who": []},
        {"code": "reserved", "message": "would delay sweep-lr-0.1 (reserved to start in 40m): it may run 2h30m",
         "cure": "a run of at most 40m can be backfilled", "numbers": {"ahead_us": 1}, "who": [job_id(5)]},
    ]  # fmt: skip


def story(now_s: float) -> list[dict[str, Any]]:
    rows = [
        (1, -7200, "submitted", "pending", 0, "", "ana", None),
        (2, -7000, "started", "running", 0, "8 cards of n0 came free", "", {"cards": ["n0/0"]}),
        (3, -3600, "preempted", "preempting", 0, "urgent work of bo took its cards", "bo", None),
        (4, -3590, "requeued", "pending", 1, "", "", None),
    ]
    names = ("id", "at_s", "kind", "state", "attempt", "cause", "actor", "data")
    return [dict(zip(names, (row[0], now_s + row[1], *row[2:]), strict=True)) for row in rows]
