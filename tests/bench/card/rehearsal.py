"""Run a bench of a shared card on the stand-in driver: real processes, shim, daemon and policy, simulated card.

    python -m tests.bench.card.rehearsal slos --policy hybrid
    python -m tests.bench.card.rehearsal training --mode timeslice

It shows what a policy does before it is measured on a card. Kernels last milliseconds, so that a machine with two cores
keeps up. Results with MPS do not apply to real cards: the stand-in's priorities are strict and cost nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from bench.card import leftovers, slos, stage, training
from bench.card.clock import Deadline
from bench.card.models import EXTRA
from bench.card.place import Place
from bench.card.report import report
from bench.card.rows import RowFile
from gpusquad.measure.workloads import Step, Workload
from tests.bench.card.fake_tenant import launching
from tests.gpu.standin.running import new_card

MPS_PROGRAM = '#!/bin/sh\n[ "$1" = -d ] || cat\n'
LOADS = {slos.IMAGE: 10.0, slos.TEXT: 16.0}
COUPLES = (training.Couple(slos.STEADY, slos.SPARE), training.Couple(slos.SPARE, slos.SPARE))
_LAYERS = 32
KERNELS = "image:120:1000\ntext:100:1000\n" + "".join(f"small{n}:40:1000\nwide{n}:0:2000\n" for n in range(_LAYERS))


def _training(torch: Any, device: str, batch: int, *, kernel: str, count: int) -> Step:
    """Return a training step. Two steps are queued at a time. Kernels of a step differ, so that steps are detected."""
    from tests.gpu.standin.client import Cuda

    cuda = Cuda(kernels=KERNELS)
    ends: list[Any] = []

    def step() -> None:
        for layer in range(count):
            cuda.launch(f"{kernel}{layer}")
        ends.append(cuda.event())
        cuda("cuEventRecord", ends[-1], None)
        if len(ends) > 1:
            finished = ends.pop(0)
            cuda("cuEventSynchronize", finished)
            cuda("cuEventDestroy", finished)

    return step


_service = partial(launching, kernels=KERNELS)
WORKLOADS = (
    Workload(slos.IMAGE, "ten milliseconds of nearly the card", partial(_service, kernel="image", count=10)),
    Workload(slos.TEXT, "six milliseconds of most of it", partial(_service, kernel="text", count=6)),
    Workload(slos.STEADY, "steps of 30 ms on a third of it", partial(_training, kernel="small", count=30)),
    Workload(slos.SPARE, "steps of 30 ms on all of it", partial(_training, kernel="wide", count=15)),
)

EXTRA.update({workload.name: workload for workload in WORKLOADS})


class _NoWatcher:
    """Watcher without counters."""

    def __init__(self, place: Place) -> None: ...

    def __enter__(self) -> _NoWatcher:
        return self

    def __exit__(self, *_: object) -> None: ...

    def watch(self, from_s: float, to_s: float) -> dict[str, Any]:
        return {}


def _prepare(folder: Path, mode: str) -> Place:
    """Create a card and a fake MPS program, and set the environment of all processes."""
    shared, programs = folder / "shm", folder / "programs"
    for new_folder in (shared, programs):
        new_folder.mkdir()
    control = programs / "nvidia-cuda-mps-control"
    control.write_text(MPS_PROGRAM)
    control.chmod(0o755)
    os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
    for module in (leftovers, stage):
        module.SHARED = shared
    card = new_card(folder / "card", folder / "builds", mode=mode)
    for name, value in card.environment().items():
        if name.startswith(("STANDIN_", "LD_")) and name != "STANDIN_LOG":
            os.environ[name] = value
    return Place(device="cpu", logs=folder / "logs", module="tests.bench.card.rehearsal_tenant")


def _slos(file: RowFile, place: Place, options: argparse.Namespace, deadline: Deadline) -> None:
    slos.WORKLOADS.update({name: name for name in slos.NAMES})
    slos.LOADS.update(LOADS)
    slos.OURS_POLICY = options.policy or slos.OURS_POLICY
    ours = slos.OURS if options.mode == "mps" else slos.ISOLATED
    known = slos.conditions()
    slos.conditions = lambda: {ours: known[ours]}
    slos.run(file, {"sitting": "rehearsal"}, slos.Options(place, False, options.length or 30.0, repeats=1), deadline)


def _trainings(file: RowFile, place: Place, options: argparse.Namespace, deadline: Deadline) -> None:
    training.COUPLES = COUPLES
    training.Watcher = _NoWatcher
    names = ("MPS" if options.mode == "mps" else "time slicing", *training.POLICIES)
    training.CONDITIONS = {name: training.CONDITIONS[name] for name in names}
    training.run(file, {"sitting": "rehearsal"}, training.Options(place, False, options.length, repeats=1), deadline)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", choices=("slos", "training"))
    parser.add_argument("--mode", choices=("mps", "timeslice"), default="mps")
    parser.add_argument("--policy", default="", help="divide policy of the bench slos; default: slo")
    parser.add_argument("--length", type=float, default=None, help="length of a run in seconds")
    parser.add_argument("--minutes", type=float, default=6.0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        place = _prepare(Path(folder), options.mode)
        file = RowFile(Path(folder) / "rows.jsonl")
        run = _slos if options.bench == "slos" else _trainings
        run(file, place, options, Deadline(options.minutes, 5.0))
        print(report(file.rows, Path(folder))[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
