"""Tests of the mechanism bench: grants, order of measurement and table."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.card import __main__ as main_module
from bench.card import mechanism
from bench.card.machine import sitting
from bench.card.mechanism import MEANS, Options
from bench.card.mechanism_table import mechanism_tables, shown
from bench.card.pair_plan import ALONE, LATENCY, PAIRS, TRAINING, TRAINING_ALONE, Pair
from bench.card.place import Place
from bench.card.rows import RowFile
from bench.card.ways import company, needs_mps, needs_region
from tests.bench.card.test_pairs import PAIR, RowDeadline

HEAD = {"bench": "mechanism", "sitting": "s", "pair": "p", "setup": "x"}


class ShortOptions(Options):
    """Options with one pair that needs no card."""

    @property
    def pairs(self) -> list[Pair]:
        return [PAIR]


def run_bench(path: Path, place: Place, rows: int) -> list[dict]:
    file = RowFile(path)
    head = sitting("mechanism", "cpu", "0")
    file.add(head)
    mechanism.run(file, head, ShortOptions(place, length_s=0.15), RowDeadline(file, rows))
    return file.rows


@pytest.mark.slow
def test_all_conditions_get_the_same_arrivals_and_a_second_call_continues(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    rows = run_bench(path, place, 2)
    blocks = [row for row in rows if row["kind"] == "block"]
    assert sorted(row["condition"] for row in blocks) == sorted(MEANS)  # a started round is completed
    assert [row.get("failed") for row in blocks] == [None] * len(MEANS)
    assert len({len(row["late_us"]) for row in blocks if row["condition"] != TRAINING_ALONE}) == 1
    again = [row for row in run_bench(path, place, 2) if row["kind"] == "block"]
    assert {row["repeat"] for row in again} == {0, 1}
    table = mechanism_tables(again)[0]
    assert [summary.condition for summary in table.told] == list(MEANS)
    assert [summary.rounds for summary in table.told] == [2] * len(MEANS)


def test_clients_share_a_region_and_only_training_yields() -> None:
    for name, means in MEANS.items():
        ways = [seat.way for seat in means.seats]
        assert len({needs_mps(way) for way in ways}) == 1, name
        assert len({company(way) for way in ways}) == 1, name
        assert len({needs_region(way) for way in ways}) == 1, name
        assert not means.service_grant.yield_to, name
    yielding = [means for name, means in MEANS.items() if name.startswith("yields")]
    assert {means.training_grant.yield_to for means in yielding} == {1 << [LATENCY, TRAINING].index(LATENCY)}
    assert {needs_mps(means.seats[0].way) for means in yielding} == {True, False}


def block(condition: str, repeat: int, late_us: list[int], **more: object) -> dict:
    return {
        **HEAD,
        "kind": "block",
        "condition": condition,
        "repeat": repeat,
        "length_s": 2.0,
        "late_us": late_us,
        **more,
    }


def test_table_has_ratios_to_alone_and_the_time_held() -> None:
    rows = [{**HEAD, "kind": "facts", "work_us": 4000.0, "per_s": 200.0}]
    for repeat in range(3):
        late = [(1 + repeat) * (1000 if index % 10 else 3000) for index in range(100)]
        rows += [
            block(ALONE, repeat, late), block(TRAINING_ALONE, repeat, [], steps_per_s=20.0),
            block("yields", repeat, [2 * us for us in late], steps_per_s=15.0, held_ms=500, moves=0),
        ]  # fmt: skip
    rows.append(block("mates known", 0, [], failed="it died"))
    table = mechanism_tables(rows)[0]
    summaries = {one.condition: one for one in table.told}
    assert table.busy_ratio == pytest.approx(0.2)
    assert [ratio.value for ratio in summaries["yields"].late_ratios] == pytest.approx([2.0, 2.0, 2.0])
    assert summaries["yields"].training_ratio.value == pytest.approx(0.75)
    assert summaries["yields"].held_ratio == pytest.approx(0.25)
    assert (summaries["mates known"].rounds, summaries["mates known"].failed) == (0, 1)
    assert "0 (1 failed)" in shown([table])


def test_conditions_and_pairs_can_be_selected() -> None:
    words = ["mechanism", "--out", "x", "--conditions", "yields;MPS priority", "--pairs", "1"]
    options = main_module._mechanism_options(main_module._parser().parse_args(words), Place())
    assert set(options.conditions) == {ALONE, TRAINING_ALONE, "yields", "MPS priority"}
    assert options.pairs == list(PAIRS[:1])  # not every name that contains 1
