"""Ten thousand jobs in the queue of one service: rate of submissions, and time to show the queue."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.claims import claim
from bench.running import RunningService
from gpusquad.client.connect import find

NAME = "service"
SUMMARY = "submissions per second and the time of `queue` with 10,000 queued jobs"
QUEUED = int(os.environ.get("GPUSQUAD_QUEUED", "10000"))
CLIENTS = 4
LOOKS = 100
RUNS = 20


def run() -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        service = RunningService(Path(folder), "--simulate", "8", config="[server]\nrequests_burst = 100000\n")
        service.start().checked()
        try:
            return _measure(service)
        finally:
            service.end()


def _measure(service: RunningService) -> list[dict]:
    service.wait(service.submit(name="holds all", gpus=8, command="sleep 3600"), "running")
    before_bytes = _memory_bytes(service)
    alone_s = _timed(lambda: _submit(service, 200))
    together_s = _timed(lambda: _submit_together(service, QUEUED - 200))
    counts = service.client.cluster.queue(1)["counts"]
    assert counts["pending"] == QUEUED, counts
    looks = [_timed(lambda: service.client.cluster.queue(100)) for _ in range(LOOKS)]
    verbs = [_timed(lambda: _verb(service)) for _ in range(RUNS)]
    bare = statistics.median(_timed(lambda: _python("-c", "pass")) for _ in range(RUNS))
    return [
        claim("submitted by one client", 200 / alone_s, "jobs/s", "higher", bar=200),
        claim(f"submitted by {CLIENTS} clients", (QUEUED - 200) / together_s, "jobs/s", "higher", bar=200),
        claim("GET /queue, 95th of a hundred", _p95(looks) * 1e3, "ms", "lower", bar=200),
        claim("gpusquad queue, 95th of a hundred", _p95(verbs) * 1e3, "ms", "lower", bar=200, baseline=bare * 1e3),
        claim("memory of the server", _memory_bytes(service) / 2**20, "MiB", "lower", baseline=before_bytes / 2**20),
    ]


def _submit(service: RunningService, count: int) -> None:
    client = find({"GPUSQUAD_HOME": str(service.home)})
    for i in range(count):
        client.jobs.submit({
            "name": f"job-{i}", "gpus": 1 + i % 4, "command": ["python", "train.py"], "estimate": 60 + i % 600,
            "workdir": "/tmp",
        })  # fmt: skip


def _submit_together(service: RunningService, count: int) -> None:
    each = [count // CLIENTS + (i < count % CLIENTS) for i in range(CLIENTS)]
    threads = [threading.Thread(target=_submit, args=(service, part)) for part in each]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _verb(service: RunningService) -> None:
    _python("-m", "gpusquad", "queue", home=service.home)


def _python(*words: str, home: Path | None = None) -> None:
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL,
                   env=os.environ | ({"GPUSQUAD_HOME": str(home)} if home else {}))  # fmt: skip


def _timed(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def _p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[18]


def _memory_bytes(service: RunningService) -> int:
    """The server itself; its agent and keepers are small and apart."""
    assert service.process is not None
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024
