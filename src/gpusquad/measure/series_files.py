"""The folder of measurement series: one file each, never overwritten, never partial."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from math import isfinite
from pathlib import Path
from time import gmtime, strftime

from gpusquad.model.errors import Invalid
from gpusquad.model.interference import (
    ConfidenceInterval,
    CoRun,
    MeasurementSeries,
    MeasurementSetting,
    SoloMeasurement,
)
from gpusquad.model.interference_data import from_data, to_data
from gpusquad.model.units import US_PER_S

FOLDER = "interference"
"""In gpusquad's home folder."""
SUFFIX = ".json"
_LATEST_US = 2**53
"""In the year 2255."""
_MAX_NAME_CHARS = 60
"""Largest length of each part of a file name, because a card's model may have any name."""


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """A series and its path."""

    path: Path
    measured: MeasurementSeries


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not a series, or is incomplete."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class SeriesFolder:
    """All series of a folder, oldest first."""

    kept: tuple[StoredSeries, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()

    def of(self, setting: MeasurementSetting) -> list[StoredSeries]:
        """Series of exactly this setting. Values of others do not apply to it."""
        return [one for one in self.kept if one.measured.setting == setting]


def default_folder(home: Path) -> Path:
    return home / FOLDER


def save(measured: MeasurementSeries, folder: Path) -> Path:
    """Save a series. Existing files are never overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{os.getpid()}.{measured.at_us}.new"
    try:
        _write(draft, json.dumps(to_data(measured), allow_nan=False))
        return _linked(draft, folder, file_name(measured))
    finally:
        draft.unlink(missing_ok=True)


def all_of(folder: Path, setting: MeasurementSetting | None = None) -> SeriesFolder:
    """Every series in the folder, or only those of a setting. Files that cannot be read are listed, not fatal."""
    kept, skipped = [], []
    for path in sorted(folder.glob(f"*{SUFFIX}")):  # a temporary file has another suffix
        try:
            kept.append(StoredSeries(path, read(path)))
        except Invalid as error:
            skipped.append(SkippedFile(path, error.problem))
    wanted = (one for one in kept if setting is None or one.measured.setting == setting)
    return SeriesFolder(tuple(sorted(wanted, key=lambda one: (one.measured.at_us, one.path.stem))), tuple(skipped))


def latest(folder: Path, setting: MeasurementSetting | None = None) -> StoredSeries | None:
    """The newest series of the setting, or of any. None: there is none."""
    kept = all_of(folder, setting).kept
    return kept[-1] if kept else None


def read(path: Path) -> MeasurementSeries:
    """Raises Invalid with the file's name if it cannot be read or has invalid numbers."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise Invalid(str(path), str(error.strerror), "name a file that gpusquad measure wrote") from None
    except (ValueError, RecursionError):
        raise Invalid(str(path), "is incomplete or not JSON", "measure again, or remove the file") from None
    try:
        measured = from_data(data, str(path))
        if (problem := _problem(measured)) is not None:
            raise ValueError(problem)
    except Invalid:
        raise
    except (AttributeError, OverflowError, ValueError) as error:  # shapes and sizes that no file of gpusquad has
        raise Invalid(str(path), f"cannot be read: {error}", "measure again, or remove the file") from None
    return measured


def file_name(measured: MeasurementSeries) -> str:
    """``nvidia-h200_580.159.04_mps_12gb_20261115T222720Z.json``: for people. Readers use the contents, not the name."""
    setting = measured.setting
    memory = "whole" if setting.memory_bytes is None else f"{setting.memory_bytes / 1e9:g}gb"
    when = strftime("%Y%m%dT%H%M%SZ", gmtime(measured.at_us / US_PER_S))
    return "_".join(map(_plain, (setting.gpu, setting.driver, setting.sharing, memory))) + f"_{when}{SUFFIX}"


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9.+]+", "-", text.lower()).strip("-.")[:_MAX_NAME_CHARS] or "unknown"


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())


def _linked(draft: Path, folder: Path, name: str) -> Path:
    """Link it under its name, or the next free one. A link, unlike a rename, never replaces an existing file."""
    stem = name.removesuffix(SUFFIX)
    for number in count(1):
        path = folder / (name if number == 1 else f"{stem}-{number}{SUFFIX}")
        try:
            os.link(draft, path)
        except FileExistsError:
            continue
        except OSError:  # a file system without links: two saves at the same instant are not kept apart
            if path.exists():
                continue
            draft.replace(path)
        return path
    raise AssertionError("unreachable")


def _problem(measured: MeasurementSeries) -> str | None:
    """Check for errors that would otherwise appear only when the series is drawn or used."""
    if not all(isinstance(part, str) for part in (measured.setting.gpu, measured.setting.driver)):
        return "the setting names no card"
    if not 0 <= measured.at_us < _LATEST_US:
        return "its time is invalid"
    memory = measured.setting.memory_bytes
    if memory is not None and not _numbers((memory,)):
        return "the memory limit is not a number"
    found = [*map(_solo_problem, measured.solos), *map(_run_problem, measured.co_runs)]
    return next((problem for problem in found if problem is not None), None)


def _solo_problem(solo: SoloMeasurement) -> str | None:
    speeds = (number for pair in solo.by_sm for number in pair)
    numbers = (*speeds, solo.utilisation_ratio, solo.bandwidth_ratio, solo.memory_bytes, solo.power_w)
    if not isinstance(solo.workload, str):
        return "a workload has no name"
    return None if _numbers(numbers) and _interval(solo.steps_per_s) else f"{solo.workload} alone has invalid numbers"


def _run_problem(run: CoRun) -> str | None:
    size = len(run.workloads)
    if size < 2 or len(run.sm_milli) != size:
        return f"a run of {size} has parts for {len(run.sm_milli)}"
    if any(per_workload and len(per_workload) != size for per_workload in (run.ratios, run.samples, run.out_of_memory)):
        return f"{' and '.join(run.workloads)} have values for only some of them"
    samples = (number for of_one in run.samples for number in of_one)
    numbers = (*samples, run.utilisation_ratio, run.bandwidth_ratio, run.memory_bytes, run.power_w)
    good = _numbers(numbers) and all(map(_interval, run.ratios))
    return None if good else f"{' and '.join(run.workloads)} have invalid numbers"


def _interval(interval: ConfidenceInterval) -> bool:
    return _numbers((interval.mean, interval.low, interval.high, interval.repeats))


def _numbers(values: Iterable[object]) -> bool:
    return all(isinstance(value, (int, float)) and isfinite(value) for value in values)
