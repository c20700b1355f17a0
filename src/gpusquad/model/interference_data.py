"""Measurements as plain data and back, for the files of ``gpusquad measure``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gpusquad.model.errors import Invalid
from gpusquad.model.interference import (
    SHARING_MODES,
    ConfidenceInterval,
    CoRun,
    MeasurementSeries,
    MeasurementSetting,
    SoloMeasurement,
)

FORMAT = 1
"""Format version of the files. A reader refuses other versions."""


def to_data(measured: MeasurementSeries) -> dict[str, Any]:
    return {"format": FORMAT, **asdict(measured)}


def from_data(data: object, where: str = "measured") -> MeasurementSeries:
    """Read data written by ``to_data``, also via JSON. Raises ``Invalid`` for anything else."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise Invalid(where, f"is not a measurement of format {FORMAT}", "measure again with this version")
    try:
        setting = MeasurementSetting(**data["setting"])
        if setting.sharing not in SHARING_MODES:
            raise ValueError(f"{setting.sharing!r} is none of {', '.join(SHARING_MODES)}")
        solos = tuple(_solo(one) for one in data["solos"])
        co_runs = tuple(_co_run(one) for one in data["co_runs"])
        return MeasurementSeries(setting, int(data["at_us"]), solos, co_runs)
    except (KeyError, TypeError, ValueError) as error:
        raise Invalid(where, f"cannot be read: {error!r}", "measure again, or remove the file") from None


def _solo(data: dict[str, Any]) -> SoloMeasurement:
    by_sm = tuple((int(milli), float(speed)) for milli, speed in data["by_sm"])
    return SoloMeasurement(**{**data, "steps_per_s": ConfidenceInterval(**data["steps_per_s"]), "by_sm": by_sm})


def _co_run(data: dict[str, Any]) -> CoRun:
    return CoRun(
        **{
            **data,
            "workloads": tuple(map(str, data["workloads"])),
            "sm_milli": tuple(map(int, data["sm_milli"])),
            "ratios": tuple(ConfidenceInterval(**one) for one in data["ratios"]),
            "samples": tuple(tuple(map(float, one)) for one in data["samples"]),
            "out_of_memory": tuple(map(bool, data["out_of_memory"])),
        }
    )
