"""The cells to measure and their order: most important first, with the card's drift spread over all.

A cell is a set of workloads that run together, each with its part of the SMs. Repeats are the outermost loop, and each
is shuffled again, so that a card that grows warm does not make one pair look slow.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from typing import Literal

from gpusquad.model.units import WHOLE_MILLI

Stage = Literal["base", "triples", "splits"]


@dataclass(frozen=True, slots=True, order=True)
class CellWorkload:
    """A workload and its part of the SMs."""

    workload: str
    sm_milli: int = WHOLE_MILLI


@dataclass(frozen=True, slots=True, order=True)
class MeasurementCell:
    """Workloads that run together."""

    parts: tuple[CellWorkload, ...]

    @property
    def workloads(self) -> tuple[str, ...]:
        return tuple(part.workload for part in self.parts)

    @property
    def sm_milli(self) -> tuple[int, ...]:
        return tuple(part.sm_milli for part in self.parts)

    def __str__(self) -> str:
        return " + ".join(
            part.workload + ("" if part.sm_milli == WHOLE_MILLI else f" {part.sm_milli / 10:g} %")
            for part in self.parts
        )


@dataclass(frozen=True, slots=True)
class CellRepeat:
    """One window to measure."""

    cell: MeasurementCell
    repeat: int
    stage: Stage = "base"


@dataclass(frozen=True, slots=True)
class SeriesSpec:
    """The contents of a series."""

    workloads: tuple[str, ...]
    repeats: int = 5
    triples: int = 0
    """Number of sets of three different workloads."""
    triple_repeats: int = 3
    splits_milli: tuple[int, ...] = ()
    """SMs of the first of a pair; the second gets the rest. Alone, each workload is measured with the same parts."""
    split_workloads: tuple[str, ...] = ()
    """Only pairs of these are split. Empty: all."""
    split_repeats: int = 3
    seed: int = 1


def plan(wanted: SeriesSpec) -> list[CellRepeat]:
    """All repeats of cells: solo runs, all pairs once, their repeats, triples, then splits, which need new workers."""
    dice = random.Random(wanted.seed)
    alone = [MeasurementCell((CellWorkload(name),)) for name in wanted.workloads]
    cell_repeats: list[CellRepeat] = []
    for repeat in range(wanted.repeats):
        groups = (alone, pairs(wanted.workloads)) if repeat == 0 else ([*alone, *pairs(wanted.workloads)],)
        for group in groups:
            cell_repeats += _shuffled(group, repeat, "base", dice)
    chosen = triples(wanted.workloads, wanted.triples, dice)
    for repeat in range(wanted.triple_repeats):
        cell_repeats += _shuffled(chosen, repeat, "triples", dice)
    split = splits(wanted)
    for repeat in range(wanted.split_repeats):
        cell_repeats += _shuffled(split, repeat, "splits", dice)
    return cell_repeats


def remaining(
    cell_repeats: Sequence[CellRepeat], done: Collection[tuple[MeasurementCell, int]], full: Collection[MeasurementCell]
) -> list[CellRepeat]:
    """The remaining repeats. A cell that ran out of memory is not tried again at every repeat."""
    return [
        cell_repeat
        for cell_repeat in cell_repeats
        if (cell_repeat.cell, cell_repeat.repeat) not in done and cell_repeat.cell not in full
    ]


def pairs(workloads: Sequence[str]) -> list[MeasurementCell]:
    """All pairs, each workload also with a copy of itself: n (n + 1) / 2."""
    return [
        MeasurementCell((CellWorkload(first), CellWorkload(second)))
        for first, second in combinations_with_replacement(workloads, 2)
    ]


def triples(workloads: Sequence[str], count: int, dice: random.Random) -> list[MeasurementCell]:
    """Sets of three, chosen so that every workload occurs about equally often."""
    left = list(combinations(workloads, 3))
    dice.shuffle(left)
    times = dict.fromkeys(workloads, 0)
    found: list[MeasurementCell] = []
    while left and len(found) < count:
        rarest = min(left, key=lambda names: sum(times[name] for name in names))
        left.remove(rarest)
        found.append(MeasurementCell(tuple(map(CellWorkload, rarest))))
        for name in rarest:
            times[name] += 1
    return found


def splits(wanted: SeriesSpec) -> list[MeasurementCell]:
    """Each workload alone at every part, and pairs that divide the SMs. Mirrored splits of two copies count once."""
    parts = sorted({milli for first in wanted.splits_milli for milli in (first, WHOLE_MILLI - first)})
    cells = [MeasurementCell((CellWorkload(name, milli),)) for name in wanted.workloads for milli in parts]
    for first, second in combinations_with_replacement(wanted.split_workloads or wanted.workloads, 2):
        for milli in wanted.splits_milli:
            if first != second or 2 * milli <= WHOLE_MILLI:
                cells.append(MeasurementCell((CellWorkload(first, milli), CellWorkload(second, WHOLE_MILLI - milli))))
    return cells if wanted.splits_milli else []


def _shuffled(cells: Iterable[MeasurementCell], repeat: int, stage: Stage, dice: random.Random) -> list[CellRepeat]:
    cell_repeats = [CellRepeat(cell, repeat, stage) for cell in cells]
    dice.shuffle(cell_repeats)
    return cell_repeats
