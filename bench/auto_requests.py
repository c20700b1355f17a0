"""What ``auto`` chooses for GPUs, GPU memory, cores and memory, beside what is used: ten small apps on a real service.

The apps are real processes on simulated cards, whose resident memory stands for GPU memory. Each app runs twice with
numbers, then with ``auto`` from this history, and under another name with ``auto`` and an estimator that errs by up to
15 %. Half of them are gangs. The baseline is the fair share of the node. ``python -m bench.auto_requests`` prints every
choice.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.claims import claim
from bench.running import RunningService

NAME = "auto_requests"
SUMMARY = "what auto chooses beside what is used, ten apps, from history and from estimators"
SLOW = True
FIELDS = ("gpus", "gpu_memory", "cpu", "memory")
OPEN = dict.fromkeys(FIELDS, "auto")
CARDS = 8
PATIENCE_S = 600.0
MIB = 1 << 20

# Holds memory, keeps a core busy for a part of the time, and shares the rest of its run time among its cards.
PROGRAM = """
import os, sys, time
mib, busy, fixed_s, shared_s = map(float, sys.argv[1:])
held = bytearray(int(mib) << 20)
held[::4096] = b"x" * len(held[::4096])
cards = len(os.environ["GPUSQUAD_CARDS"].split(",")) * int(os.environ.get("WORLD_SIZE", "1"))
until = time.monotonic() + fixed_s + shared_s / cards
while time.monotonic() < until:
    began = time.process_time()
    while time.process_time() - began < busy / 10:
        pass
    time.sleep((1 - busy) / 10)
"""


@dataclass(frozen=True)
class App:
    """A program with known needs. ``shared_s`` is the part of the run time that GPUs shorten."""

    name: str
    mib: int
    busy: float
    fixed_s: float
    shared_s: float
    tasks: int = 1
    error: float = 1.0
    """Of its estimator: a factor."""

    def command(self) -> list[str]:
        numbers = (self.mib, self.busy, self.fixed_s, self.shared_s)
        return [sys.executable, "-c", PROGRAM, *map(str, numbers)]

    def estimator(self) -> str:
        """As a user might write it: from a formula, wrong by some percent."""
        bytes_ = round(self.mib * MIB * self.error)
        spans = {str(n * self.tasks): self.fixed_s + self.shared_s / (n * self.tasks) for n in (1, 2, 4)}
        return json.dumps({"run": max(spans.values()), "memory": bytes_, "host_memory": bytes_, "by_gpus": spans,
                           "cpu": max(0.1, self.busy)})  # fmt: skip


APPS = (
    App("lint", 60, 0.05, 6, 0), App("resnet", 300, 0.2, 2, 16, error=0.9), App("bert", 700, 0.1, 6, 2, error=1.15),
    App("etl", 500, 0.3, 7, 0, error=1.1), App("infer", 150, 0.1, 6, 1), App("ddp", 250, 0.1, 2, 24, 2, 0.9),
    App("moe", 600, 0.05, 6, 4, 2, 1.1), App("sweep", 100, 0.1, 6, 0, 3), App("rl", 200, 0.15, 5, 8, 2, 1.15),
    App("render", 400, 0.1, 4, 16, 2),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One field of one job."""

    app: str
    tasks: int
    arm: str
    field: str
    chosen: float | None
    used: float | None
    source: str
    fair: float | None
    state: str


def run() -> list[dict]:
    rows = measured()
    claims = []
    for arm in ("history", "estimate"):
        own = [row for row in rows if row.arm == arm]
        jobs = {row.app: row.state for row in own}
        done = 100 * sum(state == "succeeded" for state in jobs.values()) / len(jobs)
        claims.append(claim(f"{arm}: jobs that succeed", done, "%", "higher", bar=100))
        right = 100 * sum(row.source == arm for row in own) / len(own)
        claims.append(claim(f"{arm}: fields chosen from it", right, "%", "higher", bar=100))
        for field in ("memory", "gpu_memory", "cpu"):
            known = [row for row in own if row.field == field and row.used and row.chosen]
            fits = 100 * sum((row.used or 0) <= (row.chosen or 0) for row in known) / max(1, len(known))
            claims.append(claim(f"{arm}: {field} is enough", fits, "%", "higher", bar=90))
            fair = [row.fair / row.used for row in known if row.fair and row.used]
            claims.append(claim(f"{arm}: {field} chosen / used, median", median_ratio(known), "x", "lower",
                                baseline=median(fair) if fair else None))  # fmt: skip
    return claims


def median_ratio(rows: Sequence[Row]) -> float:
    return median((row.chosen or 0) / (row.used or 1) for row in rows) if rows else 0.0


def measured() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, _service(Path(folder)) as service:
        seeds = [_submit(service, app, "", {"gpus": n}) for app in APPS for n in (1, 2) if n * app.tasks <= CARDS]
        _wait(service, seeds)
        rows: list[Row] = []
        for arm, fields in (("history", {}), ("estimate", {"expect": True})):
            jobs = [(app, _submit(service, app, arm, OPEN | fields)) for app in APPS]
            _wait(service, [job_id for _, job_id in jobs])
            for app, job_id in jobs:
                rows += _rows(service, app, arm, job_id)
        return rows


def _submit(service: RunningService, app: App, arm: str, fields: dict[str, Any]) -> str:
    """History is found by name: the estimator's jobs have names and a program of their own."""
    file: dict[str, Any] = {
        "command": app.command(),
        "count": app.tasks,
        "retries": {"count": 2, "backoff": 1},
    } | fields
    file["name"] = f"{app.name}fresh" if arm == "estimate" else app.name
    if "expect" in file:
        path = service.home / f"{app.name}.json"
        path.write_text(app.estimator())
        file["expect"] = {"by": ["cat", str(path)]}
    return service.submit(**file)


def _wait(service: RunningService, job_ids: Sequence[str]) -> None:
    for job_id in job_ids:
        service.wait(job_id, patience_s=PATIENCE_S)


def _rows(service: RunningService, app: App, arm: str, job_id: str) -> Iterator[Row]:
    job: Any = service.client.jobs.get(job_id)
    node: Any = service.client.http.get("nodes")["items"][0]
    for one in job["auto"]:
        gpus = next((other["amount"] for other in job["auto"] if other["field"] == "gpus"), 1) or 1
        whole = {"memory": node["memory_bytes"], "cpu": node["cpu_milli"] / 1000}.get(one["field"])
        fair = None if whole is None else max(1.0 if one["field"] == "cpu" else 1 << 30, whole / CARDS * gpus)
        fair = 80.0 * (1 << 30) if one["field"] == "gpu_memory" else fair
        yield Row(app.name, app.tasks, arm, one["field"], one["amount"], one["used"], one["source"], fair, job["state"])


@contextmanager
def _service(folder: Path) -> Iterator[RunningService]:
    service = RunningService(folder / "home", "--simulate", str(CARDS)).start().checked()
    try:
        yield service
    finally:
        service.end()


def _shown(field: str, amount: float | None) -> str:
    if amount is None:
        return "–"
    return f"{amount:.2f}" if field in ("cpu", "gpus") else f"{amount / MIB:.0f} MiB"


def main() -> None:
    print(f"{'app':8} {'tasks':>5} {'from':9} {'field':10} {'chosen':>10} {'used':>10}  source")
    for row in measured():
        print(f"{row.app:8} {row.tasks:5} {row.arm:9} {row.field:10} {_shown(row.field, row.chosen):>10} "
              f"{_shown(row.field, row.used):>10}  {row.source}")  # fmt: skip


if __name__ == "__main__":
    main()
