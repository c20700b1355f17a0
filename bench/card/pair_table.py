"""The table of pairs and its verdicts, from rows. There is no verdict if too little was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any

import numpy as np

from bench.card import pair_plan as plan
from bench.card.marks import interval, markdown, number
from bench.card.origins import in_turns
from bench.card.rows import Row, chosen
from bench.card.stats import Ratio, mean, percentile, ratio

FLOOR_P99, FLOOR_TRAINING = 1.10, 0.90
AIM_P99, AIM_TRAINING = 1.05, 0.95
_HEADINGS = ("condition", "requests", "repeats", "sittings", "p50 ms", "p95 ms", "p99 ms", "p99 / alone (95 %)",
             "training / alone (95 %)", "unserved")  # fmt: skip

Rounds = dict[tuple[str, int], Row]


@dataclass(frozen=True)
class Cell:
    """Result of one condition of one pair."""

    condition: str
    requests: int
    repeats: int
    sittings: int
    failed: int
    unserved: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    p99_ratio: Ratio
    training_ratio: Ratio

    @property
    def is_enough(self) -> bool:
        return self.requests >= plan.ENOUGH_REQUESTS and self.repeats >= plan.ENOUGH_REPEATS


@dataclass(frozen=True)
class Verdict:
    """Verdict on one gpusquad condition of one pair. None: too little was measured."""

    condition: str
    floor: bool | None
    aim: bool | None
    behind_priority: bool | None
    """Worse than MPS with priority in both: the tail and the training."""
    words: str


@dataclass(frozen=True)
class PairTable:
    pair: str
    setup: str
    busy_ratio: float
    """The latency tenant's part of the card alone: GPU time of a request by requests a second."""
    training_per_s: float
    left_out: int
    """Rows of an older setup."""
    apart: str
    """Which conditions took turns with each other, where not all of them did."""
    cells: tuple[Cell, ...]
    verdicts: tuple[Verdict, ...]
    """One for each gpusquad condition."""

    @property
    def passed_by(self) -> tuple[str, ...]:
        """Conditions that meet the floor. One is sufficient; the table shows the limits and cost of each."""
        return tuple(one.condition for one in self.verdicts if one.floor)

    @property
    def passes(self) -> bool | None:
        """None: no condition has passed yet, and not all are measured completely."""
        if self.passed_by:
            return True
        return None if any(one.floor is None for one in self.verdicts) else False

    def plain(self) -> dict[str, Any]:
        return {**asdict(self), "passed_by": self.passed_by, "passes": self.passes}


def pair_tables(rows: Sequence[Row]) -> list[PairTable]:
    """Of each pair the setup that was measured last."""
    blocks = chosen(rows, plan.BENCH, "block")
    last = {row["pair"]: row["setup"] for row in blocks}
    return [_table(rows, blocks, pair, setup) for pair, setup in last.items()]


def _table(rows: Sequence[Row], blocks: Sequence[Row], pair: str, setup: str) -> PairTable:
    of_pair = [row for row in blocks if row["pair"] == pair]
    ours = [row for row in of_pair if row["setup"] == setup]
    known = [row for row in chosen(rows, plan.BENCH, "calibration") if (row["pair"], row["setup"]) == (pair, setup)]
    busy = busy_share(ours, known)
    alone = [row["steps_per_s"] for row in rounds(ours, plan.TRAINING_ALONE).values()]
    names = [name for name in plan.ALL_CONDITIONS if any(row["condition"] == name for row in ours)]
    cells = tuple(_cell(ours, name) for name in names)
    per_s = float(np.mean(alone)) if alone else float("nan")
    apart = in_turns(ours, [name for name in names if name not in (plan.ALONE, plan.TRAINING_ALONE)])
    return PairTable(pair, setup, busy, per_s, len(of_pair) - len(ours), apart, cells, verdicts(cells, busy))


def _cell(rows: Sequence[Row], condition: str) -> Cell:
    of_it = [row for row in rows if row["condition"] == condition]
    good = rounds(rows, condition)
    late = np.array([us for row in good.values() for us in row["late_us"]], float) / 1000
    shown = [float(np.percentile(late, q)) if len(late) else float("nan") for q in (50, 95, 99)]
    return Cell(
        condition, len(late), len(good), len({row["sitting"] for row in good.values()}), len(of_it) - len(good),
        sum(row.get("unserved", 0) for row in good.values()), *shown,
        p99_ratio=beside(rows, good, plan.ALONE, "late_us", percentile(99)),
        training_ratio=beside(rows, good, plan.TRAINING_ALONE, "steps_per_s", mean),
    )  # fmt: skip


def rounds(rows: Sequence[Row], condition: str) -> Rounds:
    """The blocks of a condition that did not fail, by the round that they are of: a call's own, for two calls that did
    not know of each other give theirs the same numbers."""
    good = [row for row in rows if row["condition"] == condition and not row.get("failed")]
    return {(row["sitting"], row["repeat"]): row for row in good}


def busy_share(rows: Sequence[Row], known: Sequence[Row]) -> float:
    """Fraction of the card that the service uses alone: GPU time of a request times the number of requests. ``known``:
    rows with the former."""
    alone = rounds(rows, plan.ALONE).values()
    length_s = sum(row["length_s"] for row in alone)
    if not known or not length_s:
        return float("nan")
    return known[-1]["work_us"] * sum(len(row["late_us"]) for row in alone) / length_s / 1e6


def beside(rows: Sequence[Row], good: Rounds, base: str, what: str, statistic: Any) -> Ratio:
    """Compare with the same rounds of the base. Rounds that lack one of both are left out."""
    bases = rounds(rows, base)
    both = [repeat for repeat in good if repeat in bases and what in good[repeat] and what in bases[repeat]]
    return ratio([_values(good[one], what) for one in both], [_values(bases[one], what) for one in both], statistic)


def _values(row: Row, what: str) -> list[float]:
    found = row[what]
    return found if isinstance(found, list) else [found]


def verdicts(cells: Sequence[Cell], busy_ratio: float) -> tuple[Verdict, ...]:
    """The gpusquad conditions that are measured by default, or were measured."""
    wanted = {*plan.CONDITIONS, *(cell.condition for cell in cells)}
    return tuple(_verdict(cells, busy_ratio, condition) for condition in plan.DAEMON_WAYS if condition in wanted)


def _verdict(cells: Sequence[Cell], busy_ratio: float, condition: str) -> Verdict:
    by_name = {cell.condition: cell for cell in cells}
    ours, priority = by_name.get(condition), by_name.get(plan.PRIORITY)
    needed = [by_name.get(name) for name in (plan.ALONE, condition, plan.PRIORITY)]
    if ours is None or priority is None or isnan(busy_ratio):
        return _undecided(condition, "it, MPS priority or the calibration was not measured")
    if not all(cell is not None and cell.is_enough for cell in needed) or ours.training_ratio.blocks == 0:
        least = min((cell.requests for cell in needed if cell is not None), default=0)
        few = min((cell.repeats for cell in needed if cell is not None), default=0)
        words = f"{least:,} of {plan.ENOUGH_REQUESTS:,} requests, {few} of {plan.ENOUGH_REPEATS} repeats"
        return _undecided(condition, words)
    return _decided(ours, priority, 1 - busy_ratio)


def _undecided(condition: str, why: str) -> Verdict:
    return Verdict(condition, None, None, None, f"no verdict: {why}")


def _decided(ours: Cell, priority: Cell, spare: float) -> Verdict:
    """``spare``: the part of the time in which the service alone leaves the card to others."""
    p99, trained = ours.p99_ratio, ours.training_ratio.value
    behind = p99.value > priority.p99_ratio.value and trained < priority.training_ratio.value
    floor = p99.high <= FLOOR_P99 and trained >= FLOOR_TRAINING * spare and not behind
    aim = p99.high <= AIM_P99 and trained >= AIM_TRAINING * spare and not behind
    words = "aim met" if aim else "floor met" if floor else "floor missed"
    words += f": p99 at most {number(p99.high)} of alone, training {number(trained)} where "
    words += f"{number(FLOOR_TRAINING * spare)} is the floor" + ("; behind MPS priority in both" if behind else "")
    return Verdict(ours.condition, floor, aim, behind, words)


def summary(tables: Sequence[PairTable]) -> str:
    """How often each gpusquad condition is sufficient. The more frequent one should be the default of jobs."""
    found = []
    for condition in plan.DAEMON_WAYS:
        of_it = [one for table in tables for one in table.verdicts if one.condition == condition]
        if not of_it:
            continue
        decided = [one for one in of_it if one.floor is not None]
        floors, aims = sum(one.floor is True for one in of_it), sum(one.aim is True for one in of_it)
        found.append(f"{condition}: floor met in {floors} and aim in {aims} of {len(decided)} pairs with a verdict")
    either = sum(table.passes is True for table in tables)
    return "; ".join([*found, f"one of them meets the floor in {either} of {len(tables)} pairs"])


def shown(tables: Sequence[PairTable]) -> str:
    parts = []
    for table in tables:
        lines = [
            (cell.condition, f"{cell.requests:,}", cell.repeats, cell.sittings, number(cell.p50_ms),
             number(cell.p95_ms), number(cell.p99_ms), interval(cell.p99_ratio), interval(cell.training_ratio),
             f"{cell.unserved}" + (f", {cell.failed} blocks failed" if cell.failed else ""))
            for cell in table.cells
        ]  # fmt: skip
        facts = f"busy share of the service alone {number(table.busy_ratio)}; "
        facts += f"training alone {number(table.training_per_s)}/s"
        if table.left_out:
            facts += f"; {table.left_out} blocks of another setup left out"
        if table.apart:
            facts += f"\n\nNot all in the same rounds: {table.apart}; each beside alone of its own rounds"
        parts.append(f"### {table.pair}\n\n{facts}\n\n{markdown(_HEADINGS, lines)}\n\n{_judged(table)}\n")
    return "\n".join([*parts, f"**{summary(tables)}**\n"])


def _judged(table: PairTable) -> str:
    """A line for each gpusquad condition, and whether the pair passes."""
    lines = [f"- {one.condition}: {one.words}" for one in table.verdicts]
    whole = {True: f"passes, by {' and by '.join(table.passed_by)}", False: "does not pass", None: "not decided"}
    return "\n".join([*lines, "", f"**The pair: {whole[table.passes]}**"])
