"""Combines windows into one ``MeasurementSeries``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import fsum

from gpusquad.measure.cells import MeasurementCell
from gpusquad.measure.intervals import interval
from gpusquad.measure.windows import Measurement
from gpusquad.model.interference import CoRun, MeasurementSeries, MeasurementSetting, SoloMeasurement
from gpusquad.model.units import WHOLE_MILLI

Windows = Sequence[Measurement]


def gather(windows: Iterable[Measurement], setting: MeasurementSetting, at_us: int) -> MeasurementSeries:
    """Speeds alone, and ratios of the speeds together to those alone. Pairs without a solo measurement are left out."""
    by_cell = _by_cell(windows)
    speeds = {
        cell.workloads[0]: {one.repeat: _speed(one, 0) for one in found}
        for cell, found in by_cell.items()
        if cell.sm_milli == (WHOLE_MILLI,) and found[0].fits
    }
    solos = tuple(_solo(name, by_cell) for name in sorted(speeds))
    co_runs = (
        _co_run(cell, by_cell[cell], speeds)
        for cell in sorted(by_cell)
        if len(cell.parts) > 1 and all(name in speeds for name in cell.workloads)
    )
    return MeasurementSeries(setting, at_us, solos, tuple(co_runs))


def _by_cell(windows: Iterable[Measurement]) -> dict[MeasurementCell, list[Measurement]]:
    """Results by cell, one per repeat (the newest). If a window ran out of memory, only that result."""
    found: dict[MeasurementCell, dict[int, Measurement]] = defaultdict(dict)
    for window in windows:
        if not window.failed:
            found[window.cell][window.repeat] = window
    return {cell: _settled([by_repeat[repeat] for repeat in sorted(by_repeat)]) for cell, by_repeat in found.items()}


def _settled(windows: list[Measurement]) -> list[Measurement]:
    return [window for window in windows if not window.fits][:1] or windows


def _speed(window: Measurement, place: int) -> float:
    return window.steps[place] / window.length_s


def _mean(windows: Windows, value: Callable[[Measurement], float]) -> float:
    return fsum(value(window) for window in windows) / len(windows)


def _solo(name: str, by_cell: dict[MeasurementCell, list[Measurement]]) -> SoloMeasurement:
    parts = {cell.sm_milli[0]: found for cell, found in by_cell.items() if cell.workloads == (name,) and found[0].fits}
    whole = parts[WHOLE_MILLI]
    whole_speed = _mean(whole, lambda one: _speed(one, 0))
    curve = tuple((milli, _mean(parts[milli], lambda one: _speed(one, 0)) / whole_speed) for milli in sorted(parts))
    return SoloMeasurement(
        name,
        interval([_speed(one, 0) for one in whole]),
        curve,
        _mean(whole, lambda one: one.utilisation_ratio),
        _mean(whole, lambda one: one.bandwidth_ratio),
        max(one.memory_bytes for one in whole),
        _mean(whole, lambda one: one.power_w),
    )


def _co_run(cell: MeasurementCell, windows: Windows, speeds: dict[str, dict[int, float]]) -> CoRun:
    memory_bytes = max(one.memory_bytes for one in windows)
    if not windows[0].fits:
        full = windows[0].out_of_memory
        return CoRun(cell.workloads, cell.sm_milli, memory_bytes=memory_bytes, out_of_memory=full)
    samples = tuple(
        tuple(_speed(one, place) / _alone(speeds[name], one.repeat) for one in windows)
        for place, name in enumerate(cell.workloads)
    )
    return CoRun(
        cell.workloads,
        cell.sm_milli,
        tuple(map(interval, samples)),
        samples,
        _mean(windows, lambda one: one.utilisation_ratio),
        _mean(windows, lambda one: one.bandwidth_ratio),
        memory_bytes,
        _mean(windows, lambda one: one.power_w),
    )


def _alone(speeds: dict[int, float], repeat: int) -> float:
    """The solo speed of the same repeat, when the card was in about the same state; else the mean."""
    return speeds[repeat] if repeat in speeds else fsum(speeds.values()) / len(speeds)
