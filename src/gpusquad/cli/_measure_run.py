"""Runs one measurement series: checks the options, shows progress and saves the result."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from time import gmtime, strftime

from gpusquad.gpu.mps import PROGRAM
from gpusquad.gpu.nvml import CardReader, NvmlError
from gpusquad.measure import series_files, session
from gpusquad.measure.cells import SeriesSpec, plan, remaining
from gpusquad.measure.launcher import Launcher, LocalLauncher, PodLauncher, PodOptions
from gpusquad.measure.series_runner import Options, ReportProgress
from gpusquad.measure.windows import WindowFile
from gpusquad.measure.workloads import CATALOGUE
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import MeasurementSeries, Sharing

SPLITS_MILLI = (250, 500, 750)
FIRST_CARD = "0"
UNFINISHED = "unfinished"
"""Folder of interrupted series. ``--resume`` continues the newest."""


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """Options of ``gpusquad measure``."""

    out: Path
    workloads: tuple[str, ...] = tuple(CATALOGUE)
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The user's programs, by workload name."""
    pattern: str = ""
    """Regular expression for output lines that are steps. Empty: detect them, or use reported progress."""
    sharing: Sharing = "time-slicing"
    splits: bool = False
    triples: int = 0
    memory_bytes: int | None = None
    repeats: int = 5
    window_s: float = 1.0
    budget_s: float | None = None
    card: str = FIRST_CARD
    pod: PodOptions | None = None
    """None: measure on this machine."""
    resume: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.workloads, *self.commands)))

    def series(self) -> session.Series:
        spec = SeriesSpec(
            self.names, self.repeats, triples=self.triples, splits_milli=SPLITS_MILLI if self.splits else ()
        )
        counted = ("--pattern", self.pattern) if self.pattern else ()
        arguments = {name: (name, *counted, "--command", *argv) for name, argv in self.commands.items()}
        options = Options(length_s=self.window_s, memory_bytes=self.memory_bytes, arguments=arguments)
        return session.Series(spec, options, self.sharing, self.card, self.budget_s)


@dataclass(frozen=True, slots=True)
class MeasureOutcome:
    """Result of a series."""

    measured: MeasurementSeries
    file: Path
    left: int = 0
    """Windows not measured because the time budget was used up."""
    failed: tuple[str, ...] = ()
    """Distinct reasons why some cells have no result."""


def run(options: MeasureOptions) -> MeasureOutcome:
    """Measure and save the series. If it is interrupted or the budget is used up, ``--resume`` can continue it."""
    check(options)
    folder = _work_folder(options)
    series = options.series()
    with _tidy_when_ended(), _launcher(options, folder / "logs") as launcher, progress() as tell:
        measured = session.measure(series, launcher, folder, tell)
    left, failed = _not_done(series, measured, folder)
    if not measured.solos:
        why = failed[0] if failed else "the time budget was too short"
        raise Invalid("measure", f"no workload could be measured: {why}", f"see the worker logs in {folder / 'logs'}")
    file = series_files.save(measured, options.out)
    if not left and not failed:
        shutil.rmtree(folder, ignore_errors=True)
    return MeasureOutcome(measured, file, left, failed)


def check(options: MeasureOptions) -> None:
    """Check names, PyTorch, the card and the MPS program before the measurement starts."""
    unknown = [name for name in options.workloads if name not in CATALOGUE and ":" not in name]
    if unknown:
        known = f'choose from {", ".join(CATALOGUE)}; for your own program use --workload name="python train.py"'
        raise Invalid("workloads", f"{unknown[0]!r} is not in the catalogue", known)
    try:
        re.compile(options.pattern)
    except re.error as error:
        raise Invalid("pattern", f"{options.pattern!r} is not a valid regular expression: {error}") from None
    if options.splits and options.sharing != "mps":
        raise Invalid("splits", "requires MPS, which can limit SMs", "add --sharing mps")
    if options.pod is None:
        _check_machine(options)
    else:
        _check_pod(options, options.pod)


def read_commands(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse values such as ``name="python train.py --steps 100"``."""
    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, equals, command = text.partition("=")
        try:
            argv = tuple(shlex.split(command))
        except ValueError as error:
            raise Invalid("workload", f"cannot read {text!r}: {error}", _EXAMPLE) from None
        if not name.strip() or not equals or not argv:
            raise Invalid("workload", f"cannot read {text!r}", _EXAMPLE)
        if name.strip() in CATALOGUE or name.strip() in found:
            raise Invalid("workload", f"{name.strip()!r} is already a workload", "give your program another name")
        found[name.strip()] = argv
    return found


_EXAMPLE = 'write for example --workload mine="python train.py"'


def _check_pod(options: MeasureOptions, pod: PodOptions) -> None:
    if shutil.which(pod.kubectl) is None:
        raise Invalid("engine", f"{pod.kubectl} is not installed", "install it; measuring in a pod uses it")
    if options.card != FIRST_CARD:
        raise Invalid(
            "card",
            "cannot be chosen for a pod, which sees only its own card",
            "leave out --card; choose the node with --node",
        )


def _check_machine(options: MeasureOptions) -> None:
    try:
        CardReader(options.card).model()
    except Invalid:
        raise Invalid(
            "card", "found no GPU or no NVIDIA driver", "use a machine with a GPU on which nvidia-smi works"
        ) from None
    except (NvmlError, ValueError):  # not the number of a card, or not a number
        raise Invalid("card", f"this machine has no GPU {options.card!r}", "list them with nvidia-smi -L") from None
    if any(name in CATALOGUE for name in options.workloads) and find_spec("torch") is None:
        raise Invalid(
            "workloads", f"need PyTorch, which is not installed for {sys.executable}",
            f"{sys.executable} -m pip install torch; or measure only your own programs: --workloads none --workload …",
        )  # fmt: skip
    if options.sharing == "mps" and shutil.which(PROGRAM) is None:
        raise Invalid(
            "sharing", f"{PROGRAM} is not installed", "install it with the NVIDIA driver, or use --sharing time-slicing"
        )


@contextmanager
def _tidy_when_ended() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C. Otherwise the pod would stay and keep its card."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only the main thread can set handlers
        yield
        return
    usual = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    handled = [
        number for number, handler in usual.items() if handler is signal.SIG_DFL
    ]  # under nohup SIGHUP stays ignored
    for number in handled:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _launcher(options: MeasureOptions, logs: Path) -> AbstractContextManager[Launcher]:
    return PodLauncher(options.pod, logs) if options.pod is not None else nullcontext(LocalLauncher(logs))


def _work_folder(options: MeasureOptions) -> Path:
    """A new folder, or with ``--resume`` the newest that was started with the same settings."""
    memory = "whole" if options.memory_bytes is None else str(options.memory_bytes)
    where = "pod" if options.pod is not None else options.card
    same = f"{where}_{options.sharing}_{memory}_{options.window_s:g}s"
    started = sorted((options.out / UNFINISHED).glob(f"{same}_*/{session.WINDOWS_FILE}"), key=os.path.getmtime)
    if options.resume and not started:
        raise Invalid(
            "resume", f"found no unfinished series with these settings in {options.out}", "leave out --resume"
        )
    if options.resume:
        return started[-1].parent
    folder = options.out / UNFINISHED / f"{same}_{strftime('%Y%m%dT%H%M%SZ', gmtime())}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _not_done(series: session.Series, measured: MeasurementSeries, folder: Path) -> tuple[int, tuple[str, ...]]:
    path = folder / session.WINDOWS_FILE
    if not path.exists():
        return 0, ()
    kept = WindowFile(path, measured.setting, series.options.length_s).kept
    failed = {one.cell: one.failed for one in kept if one.failed}
    done = {(one.cell, one.repeat) for one in kept if not one.failed}
    full = {one.cell for one in kept if not one.fits} | set(failed)
    failures = tuple(dict.fromkeys(f"{cell}: {why}" for cell, why in failed.items()))
    return len(remaining(plan(series.wanted), done, full)), failures


@contextmanager
def progress() -> Iterator[ReportProgress]:
    """A progress bar on stderr, if that is a terminal, with the current cell."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, of, what: None
        return
    columns = (
        SpinnerColumn(), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn(compact=True),
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task("starting workers", total=None)
        # Called before each window, so one window less is complete.
        yield lambda done, of, what: bar.update(task, completed=done - 1, total=of, description=what)
