"""Tests for the fitted formula of effective throughput."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.interference import CoRun
from gpusquad.predict.interference.combine import ODDS, PRODUCT, Combination
from gpusquad.predict.interference.effective import MAX_RHO, EffectiveThroughput, Phi, check_triples
from gpusquad.predict.interference.features import sm_need, speed_at
from tests.predict.interference.synthetic import USE, expected_rate, interval, measured, pair, triple

SHARES = st.floats(0.05, 1.0)
TRIPLES = [("busy", "reader", "middle"), ("busy", "light", "idle"), ("reader", "middle", "light"),
           ("busy", "busy", "busy"), ("reader", "idle", "idle")]  # fmt: skip


@given(st.floats(-1, 2), st.floats(-1, 2), st.floats(0, 3), st.floats(0, 1), SHARES, SHARES)
def test_phi_is_one_without_sm_limits_and_otherwise_within_bounds(base, by_need, reach, need, own, other):
    phi = Phi(base, by_need, reach)
    assert phi.of(need, 1.0, 1.0) == pytest.approx(1.0)
    assert 0.0 <= phi.of(need, own, other) <= 1.0 + 1e-12


@given(st.floats(0, 1), SHARES, st.tuples(SHARES, SHARES))
def test_phi_never_decreases_with_the_neighbours_sms(need, own, others):
    low, high = sorted(others)
    assert Phi().of(need, own, low) <= Phi().of(need, own, high) + 1e-12


def test_pairs_without_sm_limits_have_measured_rates_and_asymmetric_rho():
    fitted = EffectiveThroughput(measured())
    for own in USE:
        for other in USE:
            assert fitted.rate(own, 1.0, [(other, 1.0)]) == pytest.approx(expected_rate(own, [other]))
    skewed = EffectiveThroughput(replace(measured(), co_runs=(pair("busy", "idle", 0.9, 0.4),)))
    assert (skewed.rho("busy", "idle"), skewed.rho("idle", "busy")) == (pytest.approx(0.1), pytest.approx(0.6))


@given(st.sampled_from(sorted(USE)), SHARES, st.lists(st.tuples(st.sampled_from(sorted(USE)), SHARES), max_size=4))
def test_rates_stay_within_bounds_and_decrease_with_each_neighbour(own, share, others):
    rates = [FITTED.rate(own, share, others[:count]) for count in range(len(others) + 1)]
    assert all(0.0 < rate <= 1.0 for rate in rates)
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(rates))
    assert all(0.0 <= FITTED.rho(own, other) <= MAX_RHO for other, _ in others)


def test_solo_rate_follows_the_measured_curve():
    fitted = EffectiveThroughput(measured())
    assert fitted.solo("busy", 0.5) == pytest.approx(0.5 / 0.95)
    assert fitted.solo("busy", 0.375) == pytest.approx((0.25 + 0.5) / 2 / 0.95)
    assert fitted.solo("idle", 0.5) == 1.0
    assert fitted.solo("never heard of", 0.3) == pytest.approx(0.3)


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(0, 1.1)), min_size=1, max_size=6), SHARES, SHARES)
def test_curves_never_decrease(points, first, second):
    low, high = sorted((first, second))
    assert speed_at(points, low * 1000) <= speed_at(points, high * 1000) + 1e-12
    assert 0.0 <= sm_need(points) <= 1.0


def test_fit_recovers_phi_from_splits():
    actual, table = Phi(0.0, 0.8, 2.0), measured(sharing="mps")
    plain = EffectiveThroughput(table)
    runs = []
    for own, other in [("busy", "reader"), ("reader", "middle"), ("busy", "middle"), ("light", "busy")]:
        for first, second in ((500, 500), (250, 750), (750, 250), (1000, 500)):
            sides = ((own, first, other, second), (other, second, own, first))
            ratios = [plain.solo(m, a / 1000) * (1 - plain.rho(m, k) * actual.of(plain._need(m), a / 1000, b / 1000))
                      for m, a, k, b in sides]  # fmt: skip
            runs.append(CoRun((own, other), (first, second), tuple(map(interval, ratios))))
    fitted = EffectiveThroughput(replace(table, co_runs=(*table.co_runs, *runs)))
    found, before = fitted.split_errors(), _errors_of(plain, fitted)
    assert found is not None
    assert found.p90 < 0.02
    assert found.mean < before / 2


def test_pair_measured_with_sm_limits_only_has_a_rho():
    table = measured(("busy", "reader"), sharing="mps")
    half = CoRun(("busy", "reader"), (500, 500), (interval(0.4), interval(0.3)))
    fitted = EffectiveThroughput(replace(table, co_runs=(*table.co_runs, half)))
    assert fitted.rate("busy", 0.5, [("reader", 0.5)]) == pytest.approx(0.4, abs=0.02)
    assert fitted.rate("reader", 0.5, [("busy", 0.5)]) == pytest.approx(0.3, abs=0.02)


def test_odds_are_chosen_when_workloads_queue_for_one_resource():
    checked = check_triples(measured(more=tuple(triple(*names) for names in TRIPLES)))
    assert checked.product is not None
    assert checked.odds is not None
    assert checked.odds.median == pytest.approx(0.0, abs=1e-9)
    assert checked.product.bias < -0.02
    assert checked.chosen.odds_part == 1.0
    assert "too slow" in checked.words()
    assert len(checked.triples) == 3 * len(TRIPLES)


def test_product_is_chosen_when_neighbours_act_independently():
    runs = [triple(*names, ratios=_products(names)) for names in TRIPLES]
    checked = check_triples(measured(more=tuple(runs)))
    assert checked.product is not None
    assert checked.product.median == pytest.approx(0.0, abs=1e-9)
    assert checked.chosen.odds_part == 0.0


def test_mixed_combination_is_chosen_when_it_is_much_better():
    runs = []
    for names in TRIPLES:
        by_odds = triple(*names).ratios
        mixed = tuple((p * o.mean) ** 0.5 for p, o in zip(_products(names), by_odds, strict=True))
        runs.append(triple(*names, ratios=mixed))
    checked = check_triples(measured(more=tuple(runs)))
    assert checked.chosen.odds_part == pytest.approx(0.5)
    assert "between" in checked.chosen.name


@pytest.mark.parametrize("sharing", ["time-slicing", "mps"])
def test_few_triples_keep_the_default_combination(sharing):
    none, single = (
        check_triples(measured(sharing=sharing, more=more))
        for more in ((), (triple(*TRIPLES[0], ratios=_products(TRIPLES[0])),))
    )
    assert none.chosen.name == single.chosen.name == "odds"
    assert none.product is None
    assert "too few" in single.chosen.why


@given(st.lists(st.floats(0, 1.2), min_size=1, max_size=6), st.floats(0, 1))
def test_combined_rate_never_exceeds_the_lowest_rate(rates, odds_part):
    combined = Combination(odds_part).of(rates)
    assert 0.0 <= combined <= min(rates) + 1e-12
    assert PRODUCT.of(rates) <= combined + 1e-12
    assert combined <= ODDS.of(rates) + 1e-12


@given(st.lists(st.floats(0.1, 0.95), min_size=1, max_size=4), st.floats(0, 1))
def test_sensitivity_equals_the_numerical_slope(rates, odds_part):
    combination, step = Combination(odds_part), 1e-6
    for position in range(len(rates)):
        moved = [rate * (1 + step) if index == position else rate for index, rate in enumerate(rates)]
        slope = (combination.of(moved) / combination.of(rates) - 1) / step
        assert combination.sensitivity(rates, position) == pytest.approx(slope, rel=1e-3)


def _products(names: tuple[str, ...]) -> tuple[float, ...]:
    return tuple(
        PRODUCT.of([expected_rate(own, [other]) for index, other in enumerate(names) if index != own_index])
        for own_index, own in enumerate(names)
    )


def _errors_of(plain: EffectiveThroughput, fitted: EffectiveThroughput) -> float:
    sizes = [abs(plain.rate(s.own, s.own_sm, [(s.other, s.other_sm)]) / s.ratio - 1) for s in fitted.splits]
    return sum(sizes) / len(sizes)


FITTED = EffectiveThroughput(measured(sharing="mps"))
