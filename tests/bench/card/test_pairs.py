"""Tests of the pairs bench end to end, with sleeping processes, a real daemon and no card."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.card import pair_plan as plan
from bench.card import pairs
from bench.card.arrivals import Load
from bench.card.clock import Deadline
from bench.card.machine import sitting
from bench.card.pair_blocks import Timing
from bench.card.pair_plan import Pair
from bench.card.place import Place
from bench.card.report import report
from bench.card.rows import RowFile

PAIR = Pair("sleeps / sleeps", "sleeps", Load(200), "sleeps")
TIMING = Timing(lead_in_s=0.05, length_s=0.15, tail_s=0.02)


def options(place: Place, *chosen_pairs: Pair) -> pairs.Options:
    return pairs.Options(place, chosen_pairs or (PAIR,), plan.CONDITIONS, TIMING, (50,), stay_minutes=1.0, start_s=0.0)


class RowDeadline(Deadline):
    """Deadline after a number of rows, independent of the speed of the machine."""

    def __init__(self, file: RowFile, more: int) -> None:
        self._file, self._until = file, len(file.rows) + more

    @property
    def left_s(self) -> float:
        return 10.0 if len(self._file.rows) < self._until else 0.0

    def has(self, needed_s: float) -> bool:
        return self.left_s > 0


def run_bench(path: Path, place: Place, rows: int, *chosen_pairs: Pair) -> list[dict]:
    file = RowFile(path)
    head = sitting("pairs", "cpu", "0")
    file.add(head)
    pairs.run(file, head, options(place, *chosen_pairs), RowDeadline(file, rows))
    return file.rows


@pytest.mark.slow
def test_all_conditions_get_the_same_arrivals_and_a_second_call_continues(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    rows = run_bench(path, place, 1 + len(plan.CONDITIONS) + 3)
    blocks = [row for row in rows if row["kind"] == "block"]
    assert [row.get("failed") for row in blocks] == [None] * (len(plan.CONDITIONS) + 3)
    first = {row["condition"]: row for row in blocks if row["repeat"] == 0}
    assert set(first) == set(plan.CONDITIONS)
    served = [row for row in first.values() if row["condition"] != plan.TRAINING_ALONE]
    assert len({len(row["late_us"]) for row in served}) == 1
    assert all(late > 0 for row in served for late in row["late_us"])
    assert all(row["steps_per_s"] > 0 for row in first.values() if row["condition"] != plan.ALONE)
    with path.open("ab") as file:
        file.write(b'{"bench": "pairs", "kind": "blo')  # interrupted within a row
    again = run_bench(path, place, len(plan.CONDITIONS))
    assert sum(row["kind"] == "calibration" for row in again) == 1
    later = [row for row in again if row["kind"] == "block" and row["repeat"] == 2]
    missing = set(plan.CONDITIONS) - {row["condition"] for row in blocks if row["repeat"] == 1}
    assert {row["condition"] for row in later[: len(missing)]} == missing
    text, data = report(again, tmp_path)
    assert "rehearsal" in text
    assert [len(data["sittings"]), len(data["Pairs"][0]["cells"])] == [2, len(plan.CONDITIONS)]


@pytest.mark.slow
def test_pair_that_fails_is_reported_and_the_next_is_measured(place: Place, tmp_path: Path) -> None:
    broken = Pair("broken", "no such workload", Load(200), "sleeps")
    rows = run_bench(tmp_path / "p.jsonl", place, 3, broken, PAIR)
    assert [row["pair"] for row in rows if row["kind"] == "failure"][:1] == ["broken"]
    assert any(row["kind"] == "calibration" and row["pair"] == PAIR.name for row in rows)


def test_call_ends_when_no_pair_can_be_measured(place: Place, tmp_path: Path) -> None:
    broken = Pair("broken", "no such workload", Load(200), "sleeps")
    rows = run_bench(tmp_path / "p.jsonl", place, 100, broken)
    assert [row["kind"] for row in rows] == ["sitting", "failure"]
    assert "no such workload" in rows[-1]["failed"]
