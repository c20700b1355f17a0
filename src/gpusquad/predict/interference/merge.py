"""Merges several measurement series of one setting. A newer value replaces an older one."""

from __future__ import annotations

from collections.abc import Iterable

from gpusquad.model.interference import CoRun, MeasurementSeries, MeasurementSetting, SoloMeasurement


def merged(measured: Iterable[MeasurementSeries]) -> list[MeasurementSeries]:
    """One series per setting, the one with the newest values last. Values of different settings stay separate."""
    by_setting: dict[MeasurementSetting, list[MeasurementSeries]] = {}
    for one in sorted(measured, key=lambda one: one.at_us):
        by_setting.setdefault(one.setting, []).append(one)
    return sorted((_as_one(series) for series in by_setting.values()), key=lambda one: one.at_us)


def by_card(measured: Iterable[MeasurementSeries]) -> dict[str, MeasurementSeries]:
    """The setting in force for each card model: whole memory before part of it, then the newest."""
    ordered = sorted(merged(measured), key=lambda one: (one.setting.memory_bytes is None, one.at_us))
    return {one.setting.gpu: one for one in ordered}


def _as_one(series: list[MeasurementSeries]) -> MeasurementSeries:
    """Oldest first."""
    if len(series) == 1:
        return series[0]
    solos: dict[str, SoloMeasurement] = {}
    runs: dict[tuple[tuple[str, int], ...], list[CoRun]] = {}
    for one in series:
        solos.update((solo.workload, solo) for solo in one.solos)
        found: dict[tuple[tuple[str, int], ...], list[CoRun]] = {}
        for run in one.co_runs:
            who = tuple(sorted(zip(run.workloads, run.sm_milli, strict=True)))
            found.setdefault(who, []).append(run)
        runs.update(found)
    co_runs = tuple(run for same in runs.values() for run in same)
    return MeasurementSeries(series[-1].setting, series[-1].at_us, tuple(solos.values()), co_runs)
