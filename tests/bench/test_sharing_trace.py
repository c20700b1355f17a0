"""Tests of the sharing trace's memory sizes and of a pair table with errors."""

from __future__ import annotations

from bench.sharing_trace import CARD_GB, memory_sizes_gb, noisy
from gpusquad.sim.colocation import PairTable

RATIOS = {"aa": 0.0, "ab": 0.0, "ac": 0.5, "bb": 0.9, "bc": 0.8, "cc": 0.7}
PAIRS = PairTable({pair: ratio for (a, b), ratio in RATIOS.items() for pair in ((a, b), (b, a))})


def test_memory_sizes_exceed_a_card_only_for_pairs_that_do_not_fit():
    sizes = memory_sizes_gb(PAIRS)
    for (a, b), ratio in RATIOS.items():
        assert (sizes[a] + sizes[b] > CARD_GB) == (ratio == 0.0)


def test_noisy_table_keeps_pairs_that_do_not_fit():
    noisy_table = noisy(PAIRS)
    assert {pair for pair, ratio in noisy_table.ratios.items() if ratio == 0} == {("a", "a"), ("a", "b"), ("b", "a")}
    assert noisy_table.ratios["b", "b"] in (0.9 * 0.9, 0.9 * 1.1)
