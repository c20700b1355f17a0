"""Grants written by hand: who is in which seat, what is measured in turns, and what the table makes of it."""

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
from tests.bench.card.test_pairs import PAIR, Rounds

HEAD = {"bench": "mechanism", "sitting": "s", "pair": "p", "setup": "x"}


class Short(Options):
    """One pair that needs no card."""

    @property
    def pairs(self) -> list[Pair]:
        return [PAIR]


def call(path: Path, place: Place, rows: int) -> list[dict]:
    file = RowFile(path)
    head = sitting("mechanism", "cpu", "0")
    file.add(head)
    mechanism.run(file, head, Short(place, length_s=0.15), Rounds(file, rows))
    return file.rows


@pytest.mark.slow
def test_all_means_take_turns_with_the_same_arrivals_and_rounds_are_taken_up_again(
    place: Place, tmp_path: Path
) -> None:
    path = tmp_path / "m.jsonl"
    rows = call(path, place, 2)
    blocks = [row for row in rows if row["kind"] == "block"]
    assert sorted(row["condition"] for row in blocks) == sorted(MEANS)  # a round that was begun is whole
    assert [row.get("failed") for row in blocks] == [None] * len(MEANS)
    assert len({len(row["late_us"]) for row in blocks if row["condition"] != TRAINING_ALONE}) == 1
    again = [row for row in call(path, place, 2) if row["kind"] == "block"]
    assert {row["repeat"] for row in again} == {0, 1}
    table = mechanism_tables(again)[0]
    assert [one.condition for one in table.told] == list(MEANS)
    assert [one.rounds for one in table.told] == [2] * len(MEANS)


def test_both_have_a_seat_and_a_region_in_common_and_the_training_job_alone_gives_way() -> None:
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


def test_the_table_tells_each_over_alone_and_how_long_its_caller_was_held() -> None:
    rows = [{**HEAD, "kind": "facts", "work_us": 4000.0, "per_s": 200.0}]
    for repeat in range(3):
        late = [(1 + repeat) * (1000 if index % 10 else 3000) for index in range(100)]
        rows += [
            block(ALONE, repeat, late), block(TRAINING_ALONE, repeat, [], steps_per_s=20.0),
            block("yields", repeat, [2 * us for us in late], steps_per_s=15.0, held_ms=500, moves=0),
        ]  # fmt: skip
    rows.append(block("mates known", 0, [], failed="it died"))
    table = mechanism_tables(rows)[0]
    told = {one.condition: one for one in table.told}
    assert table.busy_ratio == pytest.approx(0.2)
    assert [ratio.value for ratio in told["yields"].late_ratios] == pytest.approx([2.0, 2.0, 2.0])
    assert told["yields"].training_ratio.value == pytest.approx(0.75)
    assert told["yields"].held_ratio == pytest.approx(0.25)
    assert (told["mates known"].rounds, told["mates known"].failed) == (0, 1)
    assert "0 (1 failed)" in shown([table])


def test_a_call_can_name_its_conditions() -> None:
    words = ["mechanism", "--out", "x", "--conditions", "yields;MPS priority", "--pairs", "1"]
    options = main_module._mechanism_options(main_module._parser().parse_args(words), Place())
    assert set(options.conditions) == {ALONE, TRAINING_ALONE, "yields", "MPS priority"}
    assert options.pairs == list(PAIRS[:1])  # and not every name with a 1 in it
