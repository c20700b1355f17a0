"""Measured windows, one line of JSON each. The file grows during a series, so that the series can be resumed."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpusquad.measure.cells import CellWorkload, MeasurementCell
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import MeasurementSetting

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Measurement:
    """One window of one cell."""

    cell: MeasurementCell
    repeat: int
    length_s: float
    steps: tuple[float, ...] = ()
    """Steps of each workload within the window. Empty: out of memory, or failed."""
    out_of_memory: tuple[bool, ...] = ()
    failed: str = ""
    """Why there is no result. The window is repeated when the series is resumed."""
    memory_bytes: int = 0
    """Memory that the cell's workers held, contexts included."""
    utilisation_ratio: float = 0.0
    bandwidth_ratio: float = 0.0
    power_w: float = 0.0
    counters: dict[str, float] = field(default_factory=dict)
    """Further counters of the card, for diagnosis."""
    at_s: float = 0.0
    """Seconds since the series was started or resumed, to detect drift."""

    @property
    def fits(self) -> bool:
        return not any(self.out_of_memory)


class WindowFile:
    """Written line by line. The first line holds the setting."""

    def __init__(self, path: Path, setting: MeasurementSetting, length_s: float) -> None:
        self._path = path
        self._head = {"format": FORMAT, "setting": asdict(setting), "length_s": length_s}
        self.kept: list[Measurement] = []
        """Earlier measurements."""
        if path.exists() and path.stat().st_size:
            self.kept = self._read()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(self._head)

    def add(self, measured: Measurement) -> None:
        self.kept.append(measured)
        self._append(to_line(measured))

    def _append(self, data: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")
            file.flush()

    def _read(self) -> list[Measurement]:
        lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):  # a line that was cut off: measured again
            whole_bytes = sum(len(line.encode()) for line in lines[:-1])
            os.truncate(self._path, whole_bytes)
            lines.pop()
        if not lines:
            self._append(self._head)
            return []
        if json.loads(lines[0]) != self._head:
            raise Invalid(
                str(self._path), "holds measurements of another card, way of sharing or window", "choose another folder"
            )
        return [from_line(json.loads(line)) for line in lines[1:]]


def to_line(measured: Measurement) -> dict[str, Any]:
    data = asdict(measured)
    data.pop("cell")
    return {"workloads": measured.cell.workloads, "sm_milli": measured.cell.sm_milli, **data}


def from_line(data: dict[str, Any]) -> Measurement:
    rest = dict(data)
    cell = MeasurementCell(tuple(map(CellWorkload, rest.pop("workloads"), rest.pop("sm_milli"))))
    steps, full = tuple(rest.pop("steps")), tuple(rest.pop("out_of_memory"))
    return Measurement(cell, steps=steps, out_of_memory=full, **rest)
