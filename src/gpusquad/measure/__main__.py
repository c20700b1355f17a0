"""``python -m gpusquad.measure``: measures with the standard library and PyTorch alone, without the CLI."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gpusquad.measure.cells import SeriesSpec
from gpusquad.measure.launcher import LocalLauncher
from gpusquad.measure.series_runner import Options
from gpusquad.measure.session import Series, measure
from gpusquad.measure.workloads import CATALOGUE
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import SHARING_MODES, MeasurementSeries
from gpusquad.model.units import parse_bytes

SPLITS_MILLI = (250, 500, 750)


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    try:
        series = _series(chosen)
        logs = chosen.out / "logs" if chosen.logs is None else chosen.logs
        measured = measure(series, LocalLauncher(logs), chosen.out, _tell if chosen.verbose else lambda *_: None)
    except Invalid as problem:
        print(problem, file=sys.stderr)
        return 2
    _show(measured)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gpusquad.measure", description=__doc__)
    add = parser.add_argument
    add("--sharing", choices=SHARING_MODES, default="time-slicing")
    add("--workloads", default=",".join(CATALOGUE), help="comma-separated names")
    add("--repeats", type=int, default=5)
    add("--window", type=float, default=1.0, help="seconds that are counted per window")
    add("--lead-in", type=float, default=0.2, help="seconds that workloads run together before counting starts")
    add("--memory", default="", help="card memory for all workloads together, for example 12GB")
    add("--triples", type=int, default=0, help="number of sets of three workloads")
    add("--triple-repeats", type=int, default=3)
    add("--splits", action="store_true", help="also measure with 25, 50 and 75 %% of the SMs")
    add("--split-workloads", default="", help="split only pairs of these workloads")
    add("--split-repeats", type=int, default=3)
    add("--budget", type=float, default=None, help="stop after this many seconds; start again to continue")
    add("--card", default="0", help="index or UUID of the card")
    add("--seed", type=int, default=1)
    add("--out", type=Path, required=True)
    add("--logs", type=Path, default=None, help="folder for the workers' output; default: a folder in --out")
    add("--verbose", action="store_true")
    return parser


def _series(chosen: argparse.Namespace) -> Series:
    wanted = SeriesSpec(
        tuple(chosen.workloads.split(",")),
        chosen.repeats,
        triples=chosen.triples,
        triple_repeats=chosen.triple_repeats,
        splits_milli=SPLITS_MILLI if chosen.splits else (),
        split_workloads=tuple(filter(None, chosen.split_workloads.split(","))),
        split_repeats=chosen.split_repeats,
        seed=chosen.seed,
    )
    memory_bytes = parse_bytes(chosen.memory, "memory") if chosen.memory else None
    options = Options(chosen.window, chosen.lead_in, memory_bytes)
    return Series(wanted, options, chosen.sharing, chosen.card, chosen.budget)


def _tell(done: int, of: int, what: str) -> None:
    print(f"{done}/{of} {what}", file=sys.stderr, flush=True)


def _show(measured: MeasurementSeries) -> None:
    for solo in measured.solos:
        speed = solo.steps_per_s
        spread = 100 * (speed.high - speed.low) / 2 / speed.mean
        print(
            f"{solo.workload:22} {speed.mean:8.2f} steps/s ± {spread:.1f} %  {solo.memory_bytes / 1e9:5.1f} GB  "
            f"busy {solo.utilisation_ratio:.2f}  memory {solo.bandwidth_ratio:.2f}  {solo.power_w:.0f} W  "
            + " ".join(f"{milli}:{speed:.2f}" for milli, speed in solo.by_sm)
        )
    for run in measured.co_runs:
        ratios = "  ".join(f"{one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in run.ratios)
        parts = " + ".join(f"{name}@{milli}" for name, milli in zip(run.workloads, run.sm_milli, strict=True))
        print(f"{parts:60} {ratios or f'does not fit {run.out_of_memory}'}")


if __name__ == "__main__":
    sys.exit(main())
