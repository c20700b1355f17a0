"""The contents of the heat maps, shared by the page and the image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gpusquad.measure.analysis.grid import PairCell, PairGrid, grid
from gpusquad.measure.analysis.stats import asymmetries
from gpusquad.measure.charts.shades import Scale
from gpusquad.model.interference import ConfidenceInterval, MeasurementSeries, SoloMeasurement
from gpusquad.model.units import show_bytes

Mark = Literal["", "more", "less"]
"""Marks of a cell that loses significantly more, or less, than its neighbour."""
MARKS: dict[Mark, str] = {"": "", "more": "▼", "less": "▲"}
ALONE = "alone"
OUT_OF_MEMORY, NOT_MEASURED = "oom", "·"


@dataclass(frozen=True, slots=True)
class Tile:
    """One field of a map."""

    text: str
    detail: str
    """The full text, shown when the pointer is over the field."""
    level: float | None = None
    """Its colour, from 0 to 1. None: no colour, because it was not measured or does not fit."""
    mark: Mark = ""
    is_twin: bool = False
    ran_out: bool = False


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One row per workload, one column per neighbour."""

    name: str
    title: str
    note: str
    scale: Scale
    ends: tuple[str, str]
    """The meaning of the palest and the strongest colour. Empty: no key."""
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    tiles: tuple[tuple[Tile, ...], ...]


def heat_maps(measured: MeasurementSeries) -> list[HeatMap]:
    """All maps of a series. Pairs only: triples and splits are lists."""
    return [speed_map(measured), memory_map(measured), bandwidth_map(measured), utilisation_map(measured),
            fit_map(measured)]  # fmt: skip


def speed_map(measured: MeasurementSeries) -> HeatMap:
    marks = _marks(measured)

    def tile(cell: PairCell) -> Tile:
        ratio = cell.ratio
        assert ratio is not None  # only cells that fit reach this point
        mark = marks.get((cell.own, cell.other), "")
        return Tile(f"{ratio.mean:.2f}", _speed_words(cell, ratio, mark), 1 - ratio.mean, mark, cell.is_twin)

    cells = grid(measured)
    return HeatMap(
        "speed", "Speed beside a neighbour, over the speed alone",
        "Row: workload. Column: its neighbour. 1.00 is as fast as alone, 0.50 half as fast.",
        "loss", ("1.00, nothing lost", "0.00, no progress"), cells.names, cells.names, _square(cells, tile),
    )  # fmt: skip


def memory_map(measured: MeasurementSeries) -> HeatMap:
    limit = measured.setting.memory_bytes
    most = limit or max((one.memory_bytes for one in (*measured.solos, *measured.co_runs)), default=0)
    end = f"{show_bytes(most)}, {'the limit' if limit else 'the most seen'}"
    return _use_map(
        measured, "memory", "Memory of the card, together and alone", ("none", end),
        "Contexts included. The first column is the workload alone, the others are pairs together.",
        lambda one: one.memory_bytes, lambda value: show_bytes(round(value)).replace(" ", "\u202f"), most or 1,
    )  # fmt: skip


def bandwidth_map(measured: MeasurementSeries) -> HeatMap:
    return _use_map(
        measured, "bandwidth", "Memory bandwidth in use, together and alone", ("0 %", "100 %"),
        "Two workloads slow each other down where together they need more than the card has.",
        lambda one: one.bandwidth_ratio, _percent, 1.0,
    )  # fmt: skip


def utilisation_map(measured: MeasurementSeries) -> HeatMap:
    return _use_map(
        measured, "utilisation", "Time in which a kernel was running, together and alone", ("0 %", "100 %"),
        "A card that is always busy may still have capacity: one small kernel is enough to be busy.",
        lambda one: one.utilisation_ratio, _percent, 1.0,
    )  # fmt: skip


def fit_map(measured: MeasurementSeries) -> HeatMap:
    def tile(cell: PairCell) -> Tile:
        return Tile("fit", f"{cell.own} and {cell.other} fit in memory together", 0.0, is_twin=cell.is_twin)

    cells = grid(measured)
    return HeatMap(
        "fit", "What fits in memory together", "If a pair does not fit, the field shows which ran out of memory.",
        "use", ("", ""), cells.names, cells.names, _square(cells, tile, _who_ran_out),
    )  # fmt: skip


def _use_map(
    measured: MeasurementSeries, name: str, title: str, ends: tuple[str, str], note: str,
    figure: Callable[..., float], shown: Callable[[float], str], most: float,
) -> HeatMap:  # fmt: skip
    """A map of a quantity of the card: the first column alone, the others together."""

    def tile(cell: PairCell) -> Tile:
        together, each = figure(cell.run), [measured.solo(one) for one in (cell.own, cell.other)]
        alone = [figure(solo) for solo in each if solo is not None]
        detail = f"{cell.own} and {cell.other} together: {shown(together)}"
        if len(alone) == 2:
            detail += f"; alone {shown(alone[0])} and {shown(alone[1])}, which add up to {shown(sum(alone))}"
        return Tile(shown(together), detail, together / most, is_twin=cell.is_twin)

    def alone_tile(solo: SoloMeasurement | None, own: str) -> Tile:
        if solo is None:
            return Tile(NOT_MEASURED, f"{own} was not measured alone")
        return Tile(shown(figure(solo)), f"{own} alone: {shown(figure(solo))}", figure(solo) / most)

    cells = grid(measured)
    square = _square(cells, tile)
    alone = [alone_tile(measured.solo(own), own) for own in cells.names]
    tiles = tuple((first, *row) for first, row in zip(alone, square, strict=True))
    return HeatMap(name, title, note, "use", ends, cells.names, (ALONE, *cells.names), tiles)


def _square(
    cells: PairGrid, tile: Callable[[PairCell], Tile], ran_out: Callable[[PairCell], str] = lambda _: OUT_OF_MEMORY
) -> tuple[tuple[Tile, ...], ...]:
    def one(own: str, other: str) -> Tile:
        cell = cells.at(own, other)
        if cell is None:
            return Tile(NOT_MEASURED, f"{own} beside {other} was not measured", is_twin=own == other)
        if not cell.run.fits:
            return Tile(ran_out(cell), _ran_out_words(cell), is_twin=cell.is_twin, ran_out=True)
        return tile(cell)

    return tuple(tuple(one(own, other) for other in cells.names) for own in cells.names)


def _marks(measured: MeasurementSeries) -> dict[tuple[str, str], Mark]:
    found: dict[tuple[str, str], Mark] = {}
    for pair in asymmetries(measured):
        if pair.loss.is_significant:
            winner = pair.second if pair.loser == pair.first else pair.first
            found |= {(pair.loser, winner): "more", (winner, pair.loser): "less"}
    return found


def _speed_words(cell: PairCell, ratio: ConfidenceInterval, mark: Mark) -> str:
    repeats = f"{ratio.repeats} repeats" if ratio.repeats > 1 else "one repeat"
    detail = f"{cell.own} beside {'its twin' if cell.is_twin else cell.other}: {ratio.mean:.3f} of its speed alone"
    detail += f" (95 %: {ratio.low:.3f} to {ratio.high:.3f}, {repeats})"
    return detail + (f"; loses significantly {mark} than {cell.other} does" if mark else "")


def _who_ran_out(cell: PairCell) -> str:
    own, other = cell.ran_out
    if cell.is_twin and not (own and other):
        return "one"
    return "both" if own and other else "row" if own else "column"


def _ran_out_words(cell: PairCell) -> str:
    names = [name for name, out in zip((cell.own, cell.other), cell.ran_out, strict=True) if out]
    return f"{cell.own} and {cell.other} do not fit: {_and(dict.fromkeys(names))} ran out of memory"


def _and(names: Sequence[str] | dict[str, None]) -> str:
    return " and ".join(names)


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f}\u202f%"
