"""Tests of the bench of virtual cards: pairings, and the place policies' choices with measured rates."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.card import virtual, virtual_table
from bench.card.clock import Deadline
from bench.card.machine import sitting
from bench.card.place import Place
from bench.card.rows import RowFile
from bench.card.virtual import Pairing, card_masks, job_name, pairings, seats_on_cards
from bench.card.virtual_places import measured_of, pair_rates
from bench.card.virtual_table import CONTENDERS, ORACLE, OURS, MixTable, shown, summary, virtual_tables

WORKLOADS = ["w", "x", "y", "z"]
RATES = {(0, 1): 0.9, (2, 3): 0.8}
"""Rates of the kinds on one card. All other pairs have a rate of 0.5."""


def test_two_jobs_of_each_of_four_kinds_have_17_pairings() -> None:
    found = pairings()
    assert len(found) == len(set(found)) == 17
    for pairing in found:
        assert sorted(kind for pair in pairing for kind in pair) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len(pairings(2)) == 2


def test_each_job_has_one_card_and_each_card_two_jobs() -> None:
    for pairing in pairings():
        cards = seats_on_cards(pairing)
        assert sorted(cards) == sorted(job_name(kind, copy) for kind in range(4) for copy in range(2))
        assert sorted(cards.values()) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_virtual_cards_are_disjoint_and_of_equal_size() -> None:
    masks = card_masks(15)
    assert [mask.bit_count() for mask in masks] == [3, 3, 3, 3]
    assert sum(masks).bit_count() == 12


@pytest.mark.parametrize(("one", "other"), [(0.5, 0.5), (0.9, 0.3), (0.4, 0.8)])
def test_rates_are_recovered_from_end_times(one: float, other: float) -> None:
    ends = ends_of(one, other)
    assert pair_rates(ends, [1.0, 1.0]) == pytest.approx((one, other))
    assert pair_rates(ends[::-1], [1.0, 1.0]) == pytest.approx((other, one))


def ends_of(one: float, other: float) -> list[float]:
    """Return the end times of two jobs of one second each. When the faster ends, the other continues alone."""
    slow, fast = sorted((one, other))
    first = 1 / fast
    last = first + 1 - first * slow
    return [first, last] if one >= other else [last, first]


def rows(
    left_out: int = 0, repeats: int = 2, jitter: float = 0.0, slower: dict[Pairing, float] | None = None
) -> list[dict]:
    """``jitter``: relative change, alternating between repeats, with the opposite sign for every other two pairings.
    ``slower``: additional factor on the times of all jobs of a pairing."""
    head = {"bench": "virtual", "setup": "m, 1 s", "mix": "m", "workloads": WORKLOADS, "sitting": "s"}
    speeds = {job_name(kind, 0): 10.0 for kind in range(4)}
    found: list[dict] = [
        {"bench": "virtual", "kind": "sitting", "sitting": "s", "at": "2026-01-02T03:04:05Z", "library": "0123abcd"},
        {**head, "kind": "alone", "per_s": speeds, "memory_bytes": dict.fromkeys(speeds, 10**9),
         "beside_others_per_s": dict.fromkeys(speeds, 9.5), "counters": {}, "part": 0.2}
    ]  # fmt: skip
    for repeat in range(repeats):
        for index, pairing in enumerate(pairings()[left_out:]):
            cards, ends_s = seats_on_cards(pairing), {}
            factor = (slower or {}).get(pairing, 1.0) * (1 + repeat / 10) * (1 + jitter * (-1) ** (index // 2 + repeat))
            for card, pair in enumerate(pairing):
                names = sorted(name for name, at in cards.items() if at == card)
                rate = RATES.get(pair, 0.5)
                ends_s |= {name: factor * s for name, s in zip(names, ends_of(rate, rate), strict=True)}
            alone_s = dict.fromkeys(ends_s, 1.0)
            found.append({**head, "kind": "run", "repeat": repeat, "pairing": [list(pair) for pair in pairing],
                          "cards": cards, "ends_s": ends_s, "alone_s": alone_s})  # fmt: skip
    return found


BEST, SAME = ((0, 1), (0, 1), (2, 3), (2, 3)), ((0, 0), (1, 1), (2, 2), (3, 3))
NEAR = ((0, 2), (0, 2), (1, 3), (1, 3))


def table_with_choices(monkeypatch: pytest.MonkeyPatch, ours: Pairing, balance: Pairing, found: list[dict]) -> MixTable:
    """Return the table as if the place policies had chosen these pairings; the other two policies pair equal kinds."""
    chosen = {CONTENDERS[OURS]: ours, CONTENDERS["balance"]: balance}
    monkeypatch.setattr(virtual_table, "_chosen", lambda spec, *_: chosen.get(spec, SAME))
    return virtual_tables(found)[0]


def test_interference_policy_chooses_the_best_pairing() -> None:
    table = virtual_tables(rows())[0]
    placed = {placement.place: placement for placement in table.placed}
    assert placed[ORACLE].pairing == BEST
    assert placed[OURS].pairing == BEST
    assert placed[OURS].over_oracle == 0
    assert placed["standalone"].over_oracle > 0.5
    assert table.leakage == pytest.approx(dict.fromkeys(WORKLOADS, 0.05))
    assert (table.repeats, table.held_out, table.verdict.met) == (2, (0.0, 0.0), True)
    assert "within the bar of 5 %" in table.words
    assert table.words.endswith("by 2 repeats of 3")
    assert "| interference | w+x w+x y+z y+z |" in shown([table])
    assert "1 sitting: s (2026-01-02, library 0123abcd)" in shown([table])


def test_one_repeat_has_figures_but_no_verdict() -> None:
    table = virtual_tables(rows(repeats=1))[0]
    assert table.words.startswith("no verdict: 1 of 2 repeats")
    assert (table.verdict.within, table.verdict.behind, table.verdict.met) == (None, None, None)
    assert [placement.place for placement in table.placed] == [*CONTENDERS, ORACLE]
    assert "met in 0 of 0 mixes with a verdict; 1 were measured" in summary([table])


@pytest.mark.parametrize(
    ("ours_s", "jitter", "within", "behind", "met"),
    [
        (1.00, 0.002, True, False, True),
        (1.03, 0.002, True, True, False),  # within the bar, and behind another place policy
        (1.03, 0.030, None, False, None),  # both are within the noise
        (1.08, 0.002, False, True, False),
    ],
)
def test_verdict_needs_the_bar_and_no_better_policy(
    monkeypatch: pytest.MonkeyPatch, ours_s: float, jitter: float, within: bool | None, behind: bool, met: bool | None
) -> None:
    """Another place policy chooses the best pairing; gpusquad's takes longer by a factor."""
    best_s, near_s = 4 / 0.9 + 4 / 0.8, 8 / 0.5
    found = rows(jitter=jitter, slower={NEAR: ours_s * best_s / near_s})
    table = table_with_choices(monkeypatch, NEAR, BEST, found)
    assert (table.verdict.within, table.verdict.behind, table.verdict.met) == (within, behind, met)
    assert f"{'not behind' if not behind else 'behind'} balance" in table.words


def test_equal_repeats_by_chance_give_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """gpusquad's and the best pairing are slow in the same repeats, all others are not."""
    noisy_pairing = ((0, 2), (0, 2), (1, 1), (3, 3))
    found = rows(jitter=0.03, slower={noisy_pairing: 1.03 * (4 / 0.9 + 4 / 0.8) / (8 / 0.5)})
    table = table_with_choices(monkeypatch, noisy_pairing, BEST, found)
    ours = next(placement for placement in table.placed if placement.place == OURS).to_oracle
    assert (ours.low, ours.high) == pytest.approx((1.03, 1.03))
    assert table.verdict.within is None
    assert "not decided against the bar" in table.words


def test_noise_is_computed_from_all_pairings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert table_with_choices(monkeypatch, BEST, BEST, rows()).noise == pytest.approx(0)
    assert table_with_choices(monkeypatch, BEST, BEST, rows(jitter=0.01)).noise > 0.01


def test_interval_covers_the_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """gpusquad's and the best pairing are slow in alternate repeats."""
    table = table_with_choices(monkeypatch, NEAR, SAME, rows(jitter=0.01))
    found = next(placement for placement in table.placed if placement.place == OURS).to_oracle
    ratio = 8 / 0.5 / (4 / 0.9 + 4 / 0.8)
    assert (found.low, found.high, found.blocks) == pytest.approx((ratio * 0.99 / 1.01, ratio * 1.01 / 0.99, 2))


def test_table_shows_each_job_alone_per_policy_and_with_its_leakage(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_with_choices(monkeypatch, NEAR, SAME, rows())
    text = shown([table])
    assert "| seconds of both jobs | alone | binpack | balance | standalone | interference | oracle |" in text
    assert "| w | 1 | 2.10, 2.10 | 2.10, 2.10 | 2.10, 2.10 | 2.10, 2.10 | 1.17, 1.17 | 5.0 % |" in text


def test_leakage_readings_are_averaged_and_counted() -> None:
    found = rows()
    again = {**found[1], "beside_others_per_s": dict.fromkeys(found[1]["per_s"], 8.5)}
    table = virtual_tables([*found, again])[0]
    assert table.leakage == pytest.approx(dict.fromkeys(WORKLOADS, 0.10))
    assert "was read 2 times" in shown([table])


def test_incomplete_repeat_is_left_out_and_reported() -> None:
    table = virtual_tables(rows(repeats=3)[:-2])[0]
    assert (table.repeats, table.left_out, table.placed[0].repeats) == (2, 15, 2)
    assert "(15 runs of one that is not whole are left out)" in shown([table])


def test_pair_table_is_computed_from_the_runs() -> None:
    _, known, *runs = rows(repeats=1)
    by_pairing = {tuple((a, b) for a, b in row["pairing"]): [row] for row in runs}
    measured = measured_of(known, by_pairing)
    ratios = {run.workloads: [ratio.mean for ratio in run.ratios] for run in measured.co_runs}
    assert ratios["a", "b"] == pytest.approx([0.9, 0.9])
    assert ratios["a", "a"] == pytest.approx([0.5, 0.5])
    assert len(ratios) == 10


def test_verdict_needs_all_pairings() -> None:
    table = virtual_tables(rows(left_out=3))[0]
    assert table.words == "no verdict: 14 of 17 pairings were measured"
    assert not table.placed


@pytest.mark.slow
def test_failing_mix_is_skipped_until_the_next_call(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise one process that does not start would use up the attempts of all pairings within a second."""
    monkeypatch.setattr(virtual, "TINY_MIXES", {"tiny": ("sleeps",) * 4})
    monkeypatch.setattr(virtual, "_measured", lambda *_: {"failed": "it died"})
    for calls in (1, 2):
        file = RowFile(tmp_path / "v.jsonl")
        virtual.run(file, sitting("virtual", "cpu", "0"), virtual.Options(place, True, 0.05), Deadline(10))
        assert len(file.of("virtual", "run")) == calls * virtual.MAX_FAILURES
        assert len(file.of("virtual", "failure")) == calls
