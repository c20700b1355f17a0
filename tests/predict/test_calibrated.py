"""Tests for the online calibration of predicted quantiles."""

import json
import random
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.prediction import LEVELS
from gpusquad.predict._bins import COUNT, quantiles
from gpusquad.predict._calibration import QuantileCalibration
from tests.predict.past_runs import S

MID, HIGH = LEVELS.index(0.5), LEVELS.index(0.9)


def bell(middle_bin: float, width: float) -> np.ndarray:
    part = np.exp(-0.5 * ((np.arange(COUNT) - middle_bin) / width) ** 2) + 1e-9
    return part / part.sum()


def simulate_runs(
    calibration: QuantileCalibration, runs: int, bias: dict[str, float], seed: int = 0
) -> dict[str, np.ndarray]:
    """Simulates tenants whose runs last ``bias`` times as long as predicted. Returns the coverage at the end."""
    rng = random.Random(seed)
    part = bell(40, 4)  # median of about 1100 seconds; four bins are an octave
    covered: dict[str, list] = {tenant: [] for tenant in bias}
    for index in range(runs):
        for tenant, factor in bias.items():
            predicted = quantiles(part, "x", 0, asked=calibration.levels(tenant)).values
            run_us = round(S * 2 ** (rng.gauss(40.5, 4) / 4) * factor)
            if index * 2 >= runs:
                covered[tenant].append([run_us <= value for value in predicted])
            calibration.learn(tenant, predicted, run_us, was_cut=False)
    return {tenant: np.mean(rows, axis=0) for tenant, rows in covered.items()}


@pytest.mark.parametrize("factor", [0.4, 1.0, 2.5])
def test_coverage_becomes_nominal_for_any_bias(factor: float):
    found = simulate_runs(QuantileCalibration(0.02), 1600, {"t": factor})["t"]
    assert found == pytest.approx(np.array(LEVELS), abs=0.05)


def test_bias_remains_at_a_learning_rate_of_zero():
    found = simulate_runs(QuantileCalibration(0.0), 400, {"t": 2.5})["t"]
    assert found[HIGH] < 0.6


def test_biased_tenant_is_corrected_without_changing_accurate_tenants():
    found = simulate_runs(QuantileCalibration(0.02), 1600, {"off": 3.0, "right": 1.0, "too": 1.0})
    assert found["off"][MID] == pytest.approx(0.5, abs=0.06)
    assert found["right"][MID] == pytest.approx(0.5, abs=0.06)
    assert found["off"][HIGH] == pytest.approx(0.9, abs=0.05)
    assert found["right"][HIGH] == pytest.approx(0.9, abs=0.05)


@given(st.lists(st.integers(0, 1 << 60), max_size=30), st.lists(st.integers(1, 1 << 60), min_size=13, max_size=13))
def test_cut_runs_never_lower_a_quantile(runs: list[int], predicted: list[int]):
    calibration = QuantileCalibration(0.5)
    before = calibration.levels("t")
    for run_us in runs:
        calibration.learn("t", sorted(predicted), run_us, was_cut=True)
        after = calibration.levels("t")
        assert (after >= before).all()
        before = after


def test_cut_run_raises_only_the_quantiles_that_it_passed():
    calibration = QuantileCalibration(0.1)
    predicted = [(index + 1) * S for index in range(len(LEVELS))]
    nominal = calibration.levels("t")
    calibration.learn("t", predicted, round(6.5 * S), was_cut=True)
    raised = calibration.levels("t") > nominal + 1e-12
    assert raised.tolist() == [value < 6.5 * S for value in predicted]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1 << 60), st.booleans()), max_size=60))
def test_levels_ascend_and_stay_within_bounds(runs):
    calibration = QuantileCalibration(0.5)
    for tenant, run_us, was_cut in runs:
        calibration.learn(tenant, [value_s * S for value_s in range(1, 14)], run_us, was_cut)
    for tenant in "abc":
        levels = calibration.levels(tenant)
        assert (np.diff(levels) >= 0).all()
        assert 0 < levels[0] <= levels[-1] < 1
        assert levels[MID] <= 1 / (1 + exp(-8)) + 1e-9


def test_number_of_tenants_is_bounded():
    calibration = QuantileCalibration(0.1, max_tenants=2)
    for tenant in ("a", "b", "a", "c"):
        calibration.learn(tenant, [S] * len(LEVELS), 5 * S, was_cut=False)
    assert list(calibration._tenants) == ["a", "c"]


def test_calibration_round_trips_through_json():
    calibration, restored = QuantileCalibration(0.1), QuantileCalibration(0.1)
    for run_s in (1, 50, 7):
        calibration.learn("t", [value_s * S for value_s in range(1, 14)], run_s * S, was_cut=False)
    restored.load(json.loads(json.dumps(calibration.dump())))
    for tenant in ("t", "stranger"):
        assert (restored.levels(tenant) == calibration.levels(tenant)).all()


@pytest.mark.parametrize("bad", [[0.0], [float("nan")] * len(LEVELS), "text"])
def test_invalid_offsets_are_not_loaded(bad):
    with pytest.raises((ValueError, TypeError)):
        QuantileCalibration(0.1).load({"all": bad, "tenants": []})
