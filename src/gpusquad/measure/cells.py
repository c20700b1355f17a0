"""What to run, in which order: first what matters most, and drift of the card spread over all.

A cell is a set of workloads that run together, each with its part of the SMs. Repeats are the outermost loop and each
is shuffled anew, so a card that grows warm does not make one pair look slow.
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
    """A workload and what it is given of the SMs."""

    workload: str
    sm_milli: int = WHOLE_MILLI


@dataclass(frozen=True, slots=True, order=True)
class MeasurementCell:
    """What runs together."""

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
    """What a series shall hold."""

    workloads: tuple[str, ...]
    repeats: int = 5
    triples: int = 0
    """So many sets of three different workloads."""
    triple_repeats: int = 3
    splits_milli: tuple[int, ...] = ()
    """What the first of a pair is given; the second gets the rest. Alone, each is measured at the same parts."""
    split_workloads: tuple[str, ...] = ()
    """Only pairs of these are split. Empty: all."""
    split_repeats: int = 3
    seed: int = 1


def plan(wanted: SeriesSpec) -> list[CellRepeat]:
    """All turns: everything alone, all pairs once, their repeats, triples, and splits last, which need workers anew."""
    dice = random.Random(wanted.seed)
    alone = [MeasurementCell((CellWorkload(name),)) for name in wanted.workloads]
    turns: list[CellRepeat] = []
    for repeat in range(wanted.repeats):
        groups = (alone, pairs(wanted.workloads)) if repeat == 0 else ([*alone, *pairs(wanted.workloads)],)
        for group in groups:
            turns += _shuffled(group, repeat, "base", dice)
    chosen = triples(wanted.workloads, wanted.triples, dice)
    for repeat in range(wanted.triple_repeats):
        turns += _shuffled(chosen, repeat, "triples", dice)
    split = splits(wanted)
    for repeat in range(wanted.split_repeats):
        turns += _shuffled(split, repeat, "splits", dice)
    return turns


def remaining(
    turns: Sequence[CellRepeat], done: Collection[tuple[MeasurementCell, int]], full: Collection[MeasurementCell]
) -> list[CellRepeat]:
    """Turns not done yet. Cells that ran out of memory stay so: they are not tried at every repeat."""
    return [turn for turn in turns if (turn.cell, turn.repeat) not in done and turn.cell not in full]


def pairs(workloads: Sequence[str]) -> list[MeasurementCell]:
    """Every two, each also with its twin: n (n + 1) / 2."""
    return [
        MeasurementCell((CellWorkload(first), CellWorkload(second)))
        for first, second in combinations_with_replacement(workloads, 2)
    ]


def triples(workloads: Sequence[str], count: int, dice: random.Random) -> list[MeasurementCell]:
    """Sets of three, so chosen that every workload is in about as many."""
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
    """Each workload alone at every part, and pairs divided between the two; a twin's two halves count once."""
    parts = sorted({milli for first in wanted.splits_milli for milli in (first, WHOLE_MILLI - first)})
    cells = [MeasurementCell((CellWorkload(name, milli),)) for name in wanted.workloads for milli in parts]
    for first, second in combinations_with_replacement(wanted.split_workloads or wanted.workloads, 2):
        for milli in wanted.splits_milli:
            if first != second or 2 * milli <= WHOLE_MILLI:
                cells.append(MeasurementCell((CellWorkload(first, milli), CellWorkload(second, WHOLE_MILLI - milli))))
    return cells if wanted.splits_milli else []


def _shuffled(cells: Iterable[MeasurementCell], repeat: int, stage: Stage, dice: random.Random) -> list[CellRepeat]:
    turns = [CellRepeat(cell, repeat, stage) for cell in cells]
    dice.shuffle(turns)
    return turns
