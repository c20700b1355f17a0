"""Tests of request arrivals: deterministic, and at the requested rate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.card.arrivals import Kind, Load, arrivals

KINDS: list[Kind] = ["poisson", "bursty"]


@given(kind=st.sampled_from(KINDS), per_s=st.floats(1, 500), length_s=st.floats(0.1, 5), seed=st.text(max_size=8))
def test_arrivals_are_sorted_within_the_time_and_deterministic(
    kind: Kind, per_s: float, length_s: float, seed: str
) -> None:
    found = arrivals(Load(per_s, kind), length_s, seed)
    assert found == sorted(found)
    assert all(0 <= at_s < length_s for at_s in found)
    assert found == arrivals(Load(per_s, kind), length_s, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_arrivals_have_the_requested_rate(kind: Kind) -> None:
    found = arrivals(Load(200, kind), 500, "seed")
    assert len(found) == pytest.approx(100_000, rel=0.05)


def test_another_seed_gives_other_arrivals() -> None:
    assert arrivals(Load(100), 5, "pair 0") != arrivals(Load(100), 5, "pair 1")


def test_bursty_arrivals_vary_more_than_poisson() -> None:
    """The variance of Poisson counts equals their mean; bursts add to it."""
    variance_ratio = {}
    for kind in KINDS:
        counts, _ = np.histogram(arrivals(Load(200, kind), 300, "seed"), bins=600, range=(0, 300))
        variance_ratio[kind] = counts.var() / counts.mean()
    assert variance_ratio["poisson"] == pytest.approx(1, abs=0.3)
    assert variance_ratio["bursty"] > 5


def test_zero_load_has_no_arrivals() -> None:
    assert arrivals(Load(0), 5, "seed") == []
