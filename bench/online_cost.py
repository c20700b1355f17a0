"""Cost of the agent's monitoring for a job: the same worker in alternate windows with the agent running and stopped.

``python -m bench.online_cost`` measures on a machine with a GPU and PyTorch and prints JSON. ``bench run online-cost``
measures if that is possible, and otherwise reports the stored measurement of an H200.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.claims import claim
from gpusquad.measure.channel import Channel
from gpusquad.measure.intervals import interval
from gpusquad.measure.launcher import LocalLauncher

NAME = "online-cost"
SUMMARY = "cost of the agent's monitoring for a job, once per second: speed with it over speed without"
KEPT = Path(__file__).with_name("online_cost_h200.json")
WORKLOADS = ("googlenet", "matmul", "transformer-inference")
"""Many small kernels, a few large ones, and gaps: sensitive to a busy driver or host."""
MIN_RATIO = 0.99
WINDOW_S, LEAD_IN_S, TAIL_S, NOTICE_S = 2.0, 0.2, 0.05, 0.05
PAIRS = 8


def run() -> list[dict]:
    measured = json.loads(KEPT.read_text(encoding="utf-8")) if not _has_gpu() else measure(WORKLOADS, PAIRS)
    where = measured["gpu"]
    return [
        claim(f"{name} on {where}: speed with the agent over without, lower end of 95 %", round(one["low"], 4), "x",
              "higher", bar=MIN_RATIO, baseline=1.0)
        for name, one in measured["ratios"].items()
    ]  # fmt: skip


def measure(workloads: Sequence[str], pairs: int, agent: Sequence[str] = ("--nvml",)) -> dict[str, Any]:
    """Pairs of windows, with and without in turn by lot, so that drift falls on both."""
    ratios = {}
    launcher = LocalLauncher(Path(tempfile.mkdtemp(prefix="gpusquad-cost-")))
    for name in workloads:
        worker = launcher.start(name, "gpusquad.measure.worker", [name], {})
        try:
            pid = worker.ask("hello", 180.0)["pid"]
            worker.ask("build", 180.0)
            with _agent(agent, pid) as looks_on:
                found = [_pair(worker, looks_on) for _ in range(pairs)]
        finally:
            worker.close()
        ratios[name] = asdict(interval(found))
    return {"gpu": _gpu(), "window_s": WINDOW_S, "ratios": ratios}


def _pair(worker: Channel, agent: int) -> float:
    """Speed with it over speed without."""
    steps = {}
    for with_agent in random.sample([True, False], 2):
        os.kill(agent, signal.SIGCONT if with_agent else signal.SIGSTOP)
        start_s = time.monotonic() + NOTICE_S
        answer = worker.ask("run", 60.0, start_s=start_s, lead_in_s=LEAD_IN_S, length_s=WINDOW_S, tail_s=TAIL_S)
        steps[with_agent] = float(answer["steps"])
    return steps[True] / steps[False]


@contextlib.contextmanager
def _agent(arguments: Sequence[str], pid: int) -> Iterator[int]:
    """An agent that looks after this process; its pid."""
    command = [sys.executable, "-m", "gpusquad.agent", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            assert process.stdin is not None
            run = {"job": "J1", "attempt": 1, "folder": tempfile.gettempdir(), "cards": [], "pids": [pid]}
            process.stdin.write(json.dumps({"runs": [run]}).encode() + b"\n")
            process.stdin.flush()
            time.sleep(3.0)  # it finds the cards, and looks for the first time
            if process.poll() is not None:
                raise RuntimeError(f"the agent ended with {process.returncode}")
            yield process.pid
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


def _has_gpu() -> bool:
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def _gpu() -> str:
    listed = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return listed.stdout.strip() or "no GPU"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    chosen = parser.parse_args()
    print(json.dumps(measure(chosen.workloads.split(","), chosen.pairs), indent=1))
