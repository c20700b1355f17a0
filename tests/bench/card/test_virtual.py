"""Every pairing, and what the places make of what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.card import virtual
from bench.card.clock import Deadline
from bench.card.machine import sitting
from bench.card.place import Place
from bench.card.rows import RowFile
from bench.card.virtual import card_masks, job_name, pairings, seats_on_cards
from bench.card.virtual_places import measured_of, pair_rates
from bench.card.virtual_table import ORACLE, shown, virtual_tables

WORKLOADS = ["w", "x", "y", "z"]
RATES = {(0, 1): 0.9, (2, 3): 0.8}
"""Whoever else shares a card has half of it."""


def test_two_jobs_each_of_four_kinds_can_be_paired_in_17_ways() -> None:
    found = pairings()
    assert len(found) == len(set(found)) == 17
    for pairing in found:
        assert sorted(kind for pair in pairing for kind in pair) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len(pairings(2)) == 2


def test_every_job_has_one_card_and_every_card_two_jobs() -> None:
    for pairing in pairings():
        cards = seats_on_cards(pairing)
        assert sorted(cards) == sorted(job_name(kind, copy) for kind in range(4) for copy in range(2))
        assert sorted(cards.values()) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_virtual_cards_are_disjoint_and_of_one_size() -> None:
    masks = card_masks(15)
    assert [mask.bit_count() for mask in masks] == [3, 3, 3, 3]
    assert sum(masks).bit_count() == 12


@pytest.mark.parametrize(("one", "other"), [(0.5, 0.5), (0.9, 0.3), (0.4, 0.8)])
def test_speeds_are_found_again_from_ends(one: float, other: float) -> None:
    ends = ends_of(one, other)
    assert pair_rates(ends, [1.0, 1.0]) == pytest.approx((one, other))
    assert pair_rates(ends[::-1], [1.0, 1.0]) == pytest.approx((other, one))


def ends_of(one: float, other: float) -> list[float]:
    """Of two jobs of a second each: the faster ends first, then the other has the card to itself."""
    slow, fast = sorted((one, other))
    first = 1 / fast
    last = first + 1 - first * slow
    return [first, last] if one >= other else [last, first]


def rows(left_out: int = 0) -> list[dict]:
    head = {"bench": "virtual", "setup": "m, 1 s", "mix": "m", "workloads": WORKLOADS}
    speeds = {job_name(kind, 0): 10.0 for kind in range(4)}
    found: list[dict] = [
        {**head, "kind": "alone", "per_s": speeds, "memory_bytes": dict.fromkeys(speeds, 10**9),
         "beside_others_per_s": dict.fromkeys(speeds, 9.5), "counters": {}, "part": 0.2}
    ]  # fmt: skip
    for pairing in pairings()[left_out:]:
        cards, ends_s = seats_on_cards(pairing), {}
        for card, pair in enumerate(pairing):
            names = sorted(name for name, at in cards.items() if at == card)
            rate = RATES.get(pair, 0.5)
            ends_s |= dict(zip(names, ends_of(rate, rate), strict=True))
        alone_s = dict.fromkeys(ends_s, 1.0)
        found.append({**head, "kind": "run", "repeat": 0, "pairing": [list(pair) for pair in pairing],
                      "cards": cards, "ends_s": ends_s, "alone_s": alone_s})  # fmt: skip
    return found


def test_interference_finds_the_best_pairing_of_what_was_measured() -> None:
    table = virtual_tables(rows())[0]
    placed = {one.place: one for one in table.placed}
    assert placed[ORACLE].pairing == ((0, 1), (0, 1), (2, 3), (2, 3))
    assert placed["interference"].pairing == placed[ORACLE].pairing
    assert placed["interference"].over_oracle == 0
    assert placed["standalone"].over_oracle > 0.5
    assert table.leakage == pytest.approx(dict.fromkeys(WORKLOADS, 0.05))
    assert "within the bar" in table.words
    assert "| interference | w+x w+x y+z y+z |" in shown([table])


def test_the_pair_table_is_that_of_the_runs() -> None:
    known, *runs = rows()
    by_pairing = {tuple((a, b) for a, b in row["pairing"]): [row] for row in runs}
    measured = measured_of(known, by_pairing)
    ratios = {run.workloads: [one.mean for one in run.ratios] for run in measured.co_runs}
    assert ratios["a", "b"] == pytest.approx([0.9, 0.9])
    assert ratios["a", "a"] == pytest.approx([0.5, 0.5])
    assert len(ratios) == 10


def test_no_verdict_before_all_pairings_were_measured() -> None:
    table = virtual_tables(rows(left_out=3))[0]
    assert table.words == "no verdict: 14 of 17 pairings were measured"
    assert not table.placed


@pytest.mark.slow
def test_a_mix_that_fails_again_and_again_is_left_and_tried_again_by_the_next_call(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process that does not start would fail all pairings within a second, and all of them would be over."""
    monkeypatch.setattr(virtual, "TINY_MIXES", {"tiny": ("sleeps",) * 4})
    monkeypatch.setattr(virtual, "_measured", lambda *_: {"failed": "it died"})
    for calls in (1, 2):
        file = RowFile(tmp_path / "v.jsonl")
        virtual.run(file, sitting("virtual", "cpu", "0"), virtual.Options(place, True, 0.05), Deadline(10))
        assert len(file.of("virtual", "run")) == calls * virtual.MOST_FAILURES
        assert len(file.of("virtual", "failure")) == calls
