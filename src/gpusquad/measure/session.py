"""One series from its options to its files, for ``gpusquad measure`` and ``python -m gpusquad.measure``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpusquad.gpu.mps import Mps, no_daemon_env
from gpusquad.measure.aggregate import gather
from gpusquad.measure.cells import SeriesSpec, plan, remaining
from gpusquad.measure.launcher import Launcher
from gpusquad.measure.series_runner import Env, Options, ReportProgress, SeriesRunner
from gpusquad.measure.windows import WindowFile
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import SHARING_MODES, MeasurementSeries, MeasurementSetting, Sharing
from gpusquad.model.interference_data import to_data

WINDOWS_FILE, MEASURED_FILE = "windows.jsonl", "measured.json"


@dataclass(frozen=True, slots=True)
class Series:
    """The options of one series."""

    wanted: SeriesSpec
    options: Options = field(default_factory=Options)
    sharing: Sharing = "time-slicing"
    card: str = "0"
    budget_s: float | None = None
    """Time to stop. What is missing can be measured by starting again with the same folder."""


def measure(
    series: Series,
    launcher: Launcher,
    folder: Path,
    report: ReportProgress = lambda done, of, what: None,
    now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
) -> MeasurementSeries:
    """Measure what is missing in the folder, and write the combined series."""
    wanted = _checked(series)
    until_s = time.monotonic() + series.budget_s if series.budget_s is not None else float("inf")
    with ExitStack() as stack:
        env = _env(series, launcher, stack)
        conductor = stack.enter_context(SeriesRunner(launcher, env, series.options, series.card))
        setting = MeasurementSetting(
            conductor.card.gpu, conductor.card.driver, series.sharing, series.options.memory_bytes
        )
        file = WindowFile(folder / WINDOWS_FILE, setting, series.options.length_s)
        done = {(one.cell, one.repeat) for one in file.kept if not one.failed}
        full = {one.cell for one in file.kept if not one.fits}
        conductor.play(remaining(plan(wanted), done, full), file.add, report, until_s)
    measured = gather(file.kept, setting, now_us())
    text = json.dumps(to_data(measured), indent=1)
    (folder / MEASURED_FILE).write_text(text + "\n", encoding="utf-8")
    return measured


def _checked(series: Series) -> SeriesSpec:
    if series.sharing not in SHARING_MODES:
        raise Invalid("sharing", f"{series.sharing!r} is not known", f"one of {', '.join(SHARING_MODES)}")
    if series.sharing != "mps" and series.wanted.splits_milli:
        raise Invalid("splits", "only MPS divides the SMs of a card", "--sharing mps")
    return replace(series.wanted, workloads=tuple(dict.fromkeys(series.wanted.workloads)))


def _env(series: Series, launcher: Launcher, stack: ExitStack) -> Env:
    if series.sharing == "mps":
        return stack.enter_context(Mps(series.card, launcher.run)).env
    return lambda _: no_daemon_env(series.card)
