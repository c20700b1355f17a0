"""A series as a square: one row per workload, one column per neighbour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpusquad.model.interference import ConfidenceInterval, CoRun, MeasurementSeries


@dataclass(frozen=True, slots=True)
class PairCell:
    """The speed of one workload beside another."""

    own: str
    other: str
    run: CoRun
    place: int
    """Index of ``own`` in the run."""

    @property
    def is_twin(self) -> bool:
        """Whether both are the same workload: the diagonal."""
        return self.own == self.other

    @property
    def ratio(self) -> ConfidenceInterval | None:
        """The ratio. None: they do not fit. Of two copies of a workload both count."""
        if not self.run.fits:
            return None
        if not self.is_twin:
            return self.run.ratios[self.place]
        first, second = self.run.ratios
        middle = [(a + b) / 2 for a, b in zip(_ends(first), _ends(second), strict=True)]
        return ConfidenceInterval(middle[0], middle[1], middle[2], min(first.repeats, second.repeats))

    @property
    def samples(self) -> tuple[float, ...]:
        """The ratio, repeat by repeat. For two copies of a workload the mean of both, because they affect each other
        equally.
        """
        if len(self.run.samples) != 2:
            return ()
        if not self.is_twin:
            return self.run.samples[self.place]
        return tuple((a + b) / 2 for a, b in zip(*self.run.samples, strict=False))

    @property
    def ran_out(self) -> tuple[bool, bool]:
        """Whether own and other ran out of memory. Both, if the run does not record which."""
        if self.run.fits:
            return (False, False)
        if len(self.run.out_of_memory) != 2 or not any(self.run.out_of_memory):
            return (True, True)
        return (self.run.out_of_memory[self.place], self.run.out_of_memory[1 - self.place])


@dataclass(frozen=True, slots=True)
class PairGrid:
    """Pairs without restriction of SMs."""

    names: tuple[str, ...]
    cells: Mapping[tuple[str, str], PairCell]

    def at(self, own: str, other: str) -> PairCell | None:
        """None: not measured."""
        return self.cells.get((own, other))

    def unordered(self) -> Iterator[tuple[PairCell, PairCell]]:
        """Both sides of every measured pair of different workloads."""
        for row, own in enumerate(self.names):
            for other in self.names[row + 1 :]:
                one, back = self.at(own, other), self.at(other, own)
                if one is not None and back is not None:
                    yield one, back

    def row(self, own: str) -> list[PairCell]:
        """Ratios beside different workloads that fit."""
        found = (self.at(own, other) for other in self.names if other != own)
        return [cell for cell in found if cell is not None and cell.run.fits]


def grid(measured: MeasurementSeries) -> PairGrid:
    """If several runs contain a pair, the first is used."""
    cells: dict[tuple[str, str], PairCell] = {}
    for own, other, run, place in measured.pairs():
        if run.is_unrestricted:
            cells.setdefault((own, other), PairCell(own, other, run, place))
    return PairGrid(names(measured), cells)


def names(measured: MeasurementSeries) -> tuple[str, ...]:
    """Every workload once: in the order of the solo runs, then the others."""
    alone = [solo.workload for solo in measured.solos]
    together = [name for run in measured.co_runs for name in run.workloads]
    return tuple(dict.fromkeys(alone + together))


def _ends(interval: ConfidenceInterval) -> tuple[float, float, float]:
    return interval.mean, interval.low, interval.high
