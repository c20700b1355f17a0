"""Tests for estimating pairs that were not measured."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad.model.interference import CoRun
from gpusquad.model.job import Profile
from gpusquad.predict.interference.features import BANDWIDTH, MEMORY, UTILISATION, Scale, Traits, traits_of_profile
from gpusquad.predict.interference.unseen import MAX_RATIO, MIN_RATIO, Ratio, UnseenPairs, ratios_of, solo_traits
from tests.predict.interference.synthetic import USE, expected_rate, interval, measured


def unseen(without=None) -> UnseenPairs:
    table = measured(without)
    return UnseenPairs(ratios_of(table), solo_traits(table))


@pytest.mark.parametrize("pair", [("busy", "middle"), ("light", "reader"), ("middle", "light")])
def test_missing_pair_is_estimated_from_rows_and_columns(pair):
    for own, other in (pair, pair[::-1]):
        found = unseen(pair).estimate(own, other)
        assert found.source == "rows and columns"
        assert found.rate == pytest.approx(expected_rate(own, [other]), rel=0.1)
        assert 0.0 < found.spread < 0.3


def test_missing_pair_is_estimated_without_features():
    table = measured(("busy", "middle"))
    found = UnseenPairs(ratios_of(table), {}).estimate("busy", "middle")
    assert found.source == "rows and columns"
    assert found.rate == pytest.approx(expected_rate("busy", ["middle"]), rel=0.2)


def test_estimate_from_rows_and_columns_models_the_interaction():
    """The slowdown is sensitivity times pressure. A sum of both would be inaccurate for extreme values."""
    sensitivity = {f"w{index}": 0.2 + 0.2 * index for index in range(8)}
    pressure = {f"w{index}": 0.2 + 0.12 * ((3 * index) % 8) for index in range(8)}
    actual = {
        (own, other): float(np.exp(-sensitivity[own] * pressure[other])) for own in sensitivity for other in pressure
    }
    errors = []
    for held_out in (("w0", "w5"), ("w7", "w5"), ("w7", "w0"), ("w3", "w6"), ("w1", "w2")):
        known = [Ratio(*pair, ratio) for pair, ratio in actual.items() if set(pair) != set(held_out)]
        model = UnseenPairs(known, {})
        errors += [
            abs(model.estimate(*pair).rate / actual[pair] - 1) for pair in (held_out, (held_out[1], held_out[0]))
        ]
    assert float(np.mean(errors)) < 0.03


def test_workload_without_pairs_is_estimated_from_its_features():
    table = measured()
    ratios = [
        measured_ratio
        for measured_ratio in ratios_of(table)
        if "middle" not in (measured_ratio.own, measured_ratio.other)
    ]
    model = UnseenPairs(ratios, solo_traits(table))
    for own, other in (("middle", "busy"), ("busy", "middle")):
        found = model.estimate(own, other)
        assert found.source == "features"
        assert found.rate == pytest.approx(expected_rate(own, [other]), rel=0.15)
    known = unseen().estimate("busy", "light").spread
    assert model.estimate("middle", "middle").spread > known


def test_profile_is_used_as_features():
    found = unseen().estimate(traits_of_profile(Profile(0.6, bandwidth_ratio=0.4)), "busy")
    assert found.source == "features"
    assert found.rate == pytest.approx(expected_rate("middle", ["busy"]), rel=0.15)


def test_estimate_is_the_median_with_source_default_without_features():
    model = unseen()
    found = model.estimate(Traits(), "busy")
    assert found.source == "default"
    assert found.rate == pytest.approx(np.median([measured_ratio.ratio for measured_ratio in ratios_of(measured())]))
    assert UnseenPairs((), {}).estimate("a", "b").source == "default"


def test_estimate_divides_time_by_utilisation_without_any_pair():
    model = UnseenPairs((), {"half": Traits({UTILISATION: 0.5}), "whole": Traits({UTILISATION: 1.0})})
    assert model.estimate("half", "half").rate == 1.0
    assert model.estimate("whole", "whole").rate == pytest.approx(0.5)
    assert model.estimate("half", "whole").source == "features"


def test_equal_workloads_have_equal_estimates():
    """Swapping a workload and its copy with equal measurements changes nothing."""
    table = measured()
    ratios, traits = list(ratios_of(table)), solo_traits(table)
    for measured_ratio in ratios_of(table):
        if "busy" in (measured_ratio.own, measured_ratio.other) and measured_ratio.own != measured_ratio.other:
            names = ["copy" if name == "busy" else name for name in (measured_ratio.own, measured_ratio.other)]
            ratios.append(Ratio(names[0], names[1], measured_ratio.ratio))
    ratios = [
        measured_ratio for measured_ratio in ratios if (measured_ratio.own, measured_ratio.other) != ("busy", "busy")
    ]
    model = UnseenPairs(ratios, {**traits, "copy": traits["busy"]})
    there, back = model.estimate("busy", "copy"), model.estimate("copy", "busy")
    assert there.rate == pytest.approx(back.rate, rel=1e-6)
    assert model.estimate("busy", "busy").rate == pytest.approx(model.estimate("copy", "copy").rate, rel=1e-6)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0.01, 1.5), min_size=1, max_size=20), st.integers(0, 10**6))
def test_rates_stay_within_bounds_for_any_measurements(values, seed):
    names = list(USE)
    ratios = [Ratio(names[(seed + k) % 5], names[(seed // 7 + 3 * k) % 5], value) for k, value in enumerate(values)]
    model = UnseenPairs(ratios, solo_traits(measured()))
    for found in model.estimates([(own, other) for own in (*names, "new") for other in names]):
        assert MIN_RATIO <= found.rate <= MAX_RATIO
        assert np.isfinite(found.spread)
        assert found.spread >= 0.0


def test_estimates_equal_single_estimates():
    model = unseen(("busy", "light"))
    pairs = [("busy", "light"), (Traits({UTILISATION: 0.2}), "busy"), ("nobody", "busy"), ("light", "busy")]
    assert [estimate.rate for estimate in model.estimates(pairs)] == pytest.approx(
        [model.estimate(*p).rate for p in pairs]
    )


def test_ratios_average_equal_workloads_and_omit_other_runs():
    table = replace(measured(), co_runs=(
        CoRun(("busy", "busy"), (1000, 1000), (interval(0.4), interval(0.6))), CoRun(("busy", "idle"), (1000, 1000)),
        CoRun(("busy", "light"), (500, 500), (interval(0.3), interval(0.9))),
    ))  # fmt: skip
    assert ratios_of(table) == [Ratio("busy", "busy", pytest.approx(0.5))]  # pyright: ignore[reportArgumentType]


def test_missing_feature_is_taken_from_similar_workloads():
    uses = [(0.1, 0.1), (0.2, 0.1), (0.9, 0.8), (1.0, 0.9)]
    known = {f"w{index}": Traits({UTILISATION: busy, BANDWIDTH: reads}) for index, (busy, reads) in enumerate(uses)}
    scale = Scale(known)
    busy, idle = (scale.point(Traits({UTILISATION: use}))[None] for use in (0.95, 0.15))
    found = [scale.in_units(BANDWIDTH, point) for point in (busy, idle)]
    assert found[0] is not None
    assert found[0][0] > 0.6
    assert found[1] is not None
    assert found[1][0] < 0.3
    assert scale.in_units(MEMORY, busy) is None
