"""Overhead of the shim for a client that is alone on a card: ``python -m bench.card cost``.

Launches of an empty kernel per second, by a C program, and steps of training jobs per second: without the shim, with
the shim only, and with the shim and the card daemon. All three run in random order in one round; a round gives one
ratio each.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.card import ways
from bench.card.clock import Deadline
from bench.card.options import Asked
from bench.card.place import Lost
from bench.card.programs import built
from bench.card.rows import Row, RowFile
from bench.card.solo import saturated_per_s
from bench.card.stage import Stage, Tenant
from bench.card.ways import Seat

BENCH = "cost"
WITHOUT, LIBRARY, DAEMON = "without", "library", "library and daemon"
WAYS = {WITHOUT: ways.PLAIN, LIBRARY: ways.SHIM, DAEMON: ways.ALONE}
WORKLOADS = ("googlenet", "transformer-training", "resnet50-service", "matmul")
"""Many small kernels, fewer and larger ones, a service that is bound by its host, and hardly any kernels."""
WINDOW_S, ROUNDS = 2.0, 12
LAUNCHES = "launches"
COUNT = 300_000
PTX = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n"
SOURCE = Path(__file__).with_name("launches.c")
_WITHIN_S = 60.0


@dataclass(frozen=True)
class Options(Asked):
    driver: str = "libcuda.so.1"
    image: str = PTX
    kernel: str = "nothing"
    count: int = COUNT

    @property
    def wanted(self) -> list[str]:
        """Workloads, and launches."""
        return self.among([LAUNCHES, *(("tiny-training",) if self.tiny else WORKLOADS)])

    @property
    def window_s(self) -> float:
        return self.length_s or WINDOW_S


def run(file: RowFile, sitting: Row, options: Options, deadline: Deadline) -> None:
    """Launches first, because they take only seconds. Then each workload, the one with the fewest rounds first."""
    wanted = options.wanted
    if options.place.device != "cpu" and LAUNCHES in wanted:
        _launches(file, sitting, options, deadline)
    waiting = [one for one in wanted if one != LAUNCHES and _rounds(file, one, options) < ROUNDS]
    for workload in sorted(waiting, key=lambda one: _rounds(file, one, options)):
        if not deadline.has(min(30.0, 20 * options.window_s)):
            return
        try:
            _steps(file, sitting, workload, options, deadline)
        except Lost as lost:
            _log(f"  {workload}: {lost}")
            file.add({**_head(sitting, workload, options), "kind": "failure", "failed": str(lost)})


def _launches(file: RowFile, sitting: Row, options: Options, deadline: Deadline) -> None:
    with Stage(options.place, [Tenant(LAUNCHES, "")]) as stage, tempfile.TemporaryDirectory() as folder:
        try:
            program = built(SOURCE, Path(folder))
            while _rounds(file, LAUNCHES, options) < ROUNDS and deadline.has(20.0):
                found = {
                    name: launched(program, stage.environment(Seat(LAUNCHES, WAYS[name])), options, Path(folder))
                    for name in _by_lot()
                }
                file.add({**_head(sitting, LAUNCHES, options), "kind": "round", "found": found})
        except (Lost, OSError, subprocess.SubprocessError) as error:
            _log(f"  launches: {error}")
            file.add({**_head(sitting, LAUNCHES, options), "kind": "failure", "failed": str(error)})


def launched(program: Path, env: dict[str, str], options: Options, folder: Path) -> dict[str, float]:
    """Nanoseconds of a launch."""
    image = folder / "image"
    image.write_text(options.image, encoding="utf-8")
    words = [str(program), options.driver, str(image), options.kernel, str(options.count)]
    done = subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, timeout=_WITHIN_S)
    if done.returncode != 0:
        raise Lost(f"the program that launches: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def _steps(file: RowFile, sitting: Row, workload: str, options: Options, deadline: Deadline) -> None:
    _log(f"{workload}: starting, {deadline.left_s:.0f} s left")
    with Stage(options.place, [Tenant("one", workload)]) as stage:
        for seat, why in stage.ready([Seat("one", way) for way in WAYS.values()]).items():
            raise Lost(f"{seat}: {why}")
        while _rounds(file, workload, options) < ROUNDS and deadline.has(4 * options.window_s + 1.0):
            found: dict[str, Any] = {}
            for name in _by_lot():
                found[name] = saturated_per_s(stage, Seat("one", WAYS[name]), options.window_s)
            file.add({**_head(sitting, workload, options), "kind": "round", "found": found})


def _by_lot() -> list[str]:
    return random.sample(list(WAYS), len(WAYS))


def _rounds(file: RowFile, what: str, options: Options) -> int:
    setup = _setup(options)
    return sum(row["what"] == what and row["setup"] == setup for row in file.of(BENCH, "round"))


def _setup(options: Options) -> str:
    return f"{options.window_s:g} s, {options.count} launches"


def _head(sitting: Row, what: str, options: Options) -> Row:
    return {"bench": BENCH, "sitting": sitting["sitting"], "what": what, "setup": _setup(options)}


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
