"""Runs one series: checks first what would fail later, shows how far it is, and keeps what it found."""

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
from gpusquad.measure.series_runner import Options, Tell
from gpusquad.measure.windows import WindowFile
from gpusquad.measure.workloads import CATALOGUE
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import MeasurementSeries, Sharing

SPLITS_MILLI = (250, 500, 750)
FIRST_CARD = "0"
UNFINISHED = "unfinished"
"""Folder of series that were stopped before their end; ``--resume`` takes the newest up again."""


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """What the command line asks for."""

    out: Path
    workloads: tuple[str, ...] = tuple(CATALOGUE)
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Programs of the user's own, by the name they are measured under."""
    pattern: str = ""
    """Which lines of their output are steps. Empty: those that look like it, or what they report."""
    sharing: Sharing = "time-slicing"
    splits: bool = False
    triples: int = 0
    memory_bytes: int | None = None
    repeats: int = 5
    window_s: float = 1.0
    budget_s: float | None = None
    card: str = FIRST_CARD
    pod: PodOptions | None = None
    """None: on this machine."""
    resume: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.workloads, *self.commands)))

    def series(self) -> session.Series:
        wanted = SeriesSpec(
            self.names, self.repeats, triples=self.triples, splits_milli=SPLITS_MILLI if self.splits else ()
        )
        counted = ("--pattern", self.pattern) if self.pattern else ()
        arguments = {name: (name, *counted, "--command", *argv) for name, argv in self.commands.items()}
        options = Options(length_s=self.window_s, memory_bytes=self.memory_bytes, arguments=arguments)
        return session.Series(wanted, options, self.sharing, self.card, self.budget_s)


@dataclass(frozen=True, slots=True)
class MeasureOutcome:
    """What came of it."""

    measured: MeasurementSeries
    file: Path
    left: int = 0
    """Windows that there was no time for."""
    failed: tuple[str, ...] = ()
    """Why some have no result, each once."""


def run(asked: MeasureOptions) -> MeasureOutcome:
    """Measure, and keep the table. Stopped early or by the budget, what was measured stays for ``--resume``."""
    check(asked)
    folder = _work_folder(asked)
    series = asked.series()
    with _tidy_when_ended(), _launcher(asked, folder / "logs") as launcher, progress() as tell:
        measured = session.measure(series, launcher, folder, tell)
    left, failed = _not_done(series, measured, folder)
    if not measured.solos:
        why = failed[0] if failed else "there was no time for anything"
        raise Invalid("measure", f"nothing could be measured: {why}", f"what the workers said is in {folder / 'logs'}")
    file = series_files.save(measured, asked.out)
    if not left and not failed:
        shutil.rmtree(folder, ignore_errors=True)
    return MeasureOutcome(measured, file, left, failed)


def check(asked: MeasureOptions) -> None:
    """What can be known before a minute is spent: names, PyTorch, the card, the program of MPS."""
    unknown = [name for name in asked.workloads if name not in CATALOGUE and ":" not in name]
    if unknown:
        known = f'there are {", ".join(CATALOGUE)}; a program of your own: --workload name="python train.py"'
        raise Invalid("workloads", f"{unknown[0]!r} is not known", known)
    try:
        re.compile(asked.pattern)
    except re.error as error:
        raise Invalid("pattern", f"{asked.pattern!r} is no regular expression: {error}") from None
    if asked.splits and asked.sharing != "mps":
        raise Invalid("splits", "only MPS divides the SMs of a card", "add --sharing mps")
    if asked.pod is None:
        _check_machine(asked)
    else:
        _check_pod(asked, asked.pod)


def read_commands(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """``name="python train.py --steps 100"``, as often as wanted."""
    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, equals, command = text.partition("=")
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise Invalid("workload", f"cannot read {text!r}: {error}", _EXAMPLE) from None
        if not name.strip() or not equals or not words:
            raise Invalid("workload", f"cannot read {text!r}", _EXAMPLE)
        if name.strip() in CATALOGUE or name.strip() in found:
            raise Invalid("workload", f"{name.strip()!r} is taken", "give your program another name")
        found[name.strip()] = words
    return found


_EXAMPLE = 'write for example --workload mine="python train.py"'


def _check_pod(asked: MeasureOptions, pod: PodOptions) -> None:
    if shutil.which(pod.kubectl) is None:
        raise Invalid("engine", f"{pod.kubectl} is not installed", "measuring in a pod goes through it")
    if asked.card != FIRST_CARD:
        raise Invalid("card", "a pod sees only the card that gpusquad gives it", "leave it out; --node says where")


def _check_machine(asked: MeasureOptions) -> None:
    try:
        CardReader(asked.card).model()
    except Invalid:
        raise Invalid(
            "card", "no GPU is here, or not NVIDIA's driver", "run it on a machine with one; nvidia-smi must work"
        ) from None
    except (NvmlError, ValueError):  # a number that no card has, or no number
        raise Invalid("card", f"there is no GPU {asked.card!r} here", "nvidia-smi -L lists them") from None
    if any(name in CATALOGUE for name in asked.workloads) and find_spec("torch") is None:
        raise Invalid(
            "workloads", f"the catalogue needs PyTorch, which {sys.executable} has not",
            f"{sys.executable} -m pip install torch; or measure only your own programs: --workloads none --workload …",
        )  # fmt: skip
    if asked.sharing == "mps" and shutil.which(PROGRAM) is None:
        raise Invalid(
            "sharing", f"{PROGRAM} is not installed", "it comes with NVIDIA's driver; or --sharing time-slicing"
        )


@contextmanager
def _tidy_when_ended() -> Iterator[None]:
    """Who is told to end, or loses its terminal, stops as by Ctrl-C: else the pod and its card would stay behind."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only there are signals heard
        yield
        return
    usual = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    heard = [number for number, handler in usual.items() if handler is signal.SIG_DFL]  # nohup ignores the second
    for number in heard:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


def _launcher(asked: MeasureOptions, logs: Path) -> AbstractContextManager[Launcher]:
    return PodLauncher(asked.pod, logs) if asked.pod is not None else nullcontext(LocalLauncher(logs))


def _work_folder(asked: MeasureOptions) -> Path:
    """A fresh one, or with ``--resume`` the newest that was begun with the same settings."""
    memory = "whole" if asked.memory_bytes is None else str(asked.memory_bytes)
    where = "pod" if asked.pod is not None else asked.card
    same = f"{where}_{asked.sharing}_{memory}_{asked.window_s:g}s"
    begun = sorted((asked.out / UNFINISHED).glob(f"{same}_*/{session.WINDOWS_FILE}"), key=os.path.getmtime)
    if asked.resume and not begun:
        raise Invalid("resume", f"no unfinished series with these settings is in {asked.out}", "leave --resume out")
    if asked.resume:
        return begun[-1].parent
    folder = asked.out / UNFINISHED / f"{same}_{strftime('%Y%m%dT%H%M%SZ', gmtime())}-{os.getpid()}"
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
    told = tuple(dict.fromkeys(f"{cell}: {why}" for cell, why in failed.items()))
    return len(remaining(plan(series.wanted), done, full)), told


@contextmanager
def progress() -> Iterator[Tell]:
    """A bar while somebody watches, with what is being measured."""
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
        # Told before each window, so what is done is one less.
        yield lambda done, of, what: bar.update(task, completed=done - 1, total=of, description=what)
