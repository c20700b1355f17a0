"""Pairs never measured, from others."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad.model.interference import CoRun
from gpusquad.model.job import Profile
from gpusquad.predict.interference.features import BANDWIDTH, MEMORY, UTILISATION, Scale, Traits, traits_of_profile
from gpusquad.predict.interference.unseen import MAX_RATIO, MIN_RATIO, Ratio, UnseenPairs, ratios_of, solo_traits
from tests.predict.interference.made import USE, at, measured, shared


def unseen(without=None) -> UnseenPairs:
    table = measured(without)
    return UnseenPairs(ratios_of(table), solo_traits(table))


@pytest.mark.parametrize("pair", [("busy", "middle"), ("light", "reader"), ("middle", "light")])
def test_a_pair_left_out_is_found_from_rows_and_columns(pair):
    for own, other in (pair, pair[::-1]):
        found = unseen(pair).estimate(own, other)
        assert found.source == "rows and columns"
        assert found.rate == pytest.approx(shared(own, [other]), rel=0.1)
        assert 0.0 < found.spread < 0.3


def test_rows_and_columns_alone_do_without_features():
    table = measured(("busy", "middle"))
    found = UnseenPairs(ratios_of(table), {}).estimate("busy", "middle")
    assert found.source == "rows and columns"
    assert found.rate == pytest.approx(shared("busy", ["middle"]), rel=0.2)


def test_rows_and_columns_are_more_than_a_sum():
    """Sensitivity times pressure: a sum of both is far off at the corners."""
    sensitive = {f"w{at}": 0.2 + 0.2 * at for at in range(8)}
    pressing = {f"w{at}": 0.2 + 0.12 * ((3 * at) % 8) for at in range(8)}
    truth = {(own, other): float(np.exp(-sensitive[own] * pressing[other])) for own in sensitive for other in pressing}
    sizes = []
    for left in (("w0", "w5"), ("w7", "w5"), ("w7", "w0"), ("w3", "w6"), ("w1", "w2")):
        known = [Ratio(*pair, ratio) for pair, ratio in truth.items() if set(pair) != set(left)]
        model = UnseenPairs(known, {})
        sizes += [abs(model.estimate(*pair).rate / truth[pair] - 1) for pair in (left, (left[1], left[0]))]
    assert float(np.mean(sizes)) < 0.03


def test_a_workload_nobody_met_is_found_from_its_features():
    table = measured()
    ratios = [one for one in ratios_of(table) if "middle" not in (one.own, one.other)]
    model = UnseenPairs(ratios, solo_traits(table))
    for own, other in (("middle", "busy"), ("busy", "middle")):
        found = model.estimate(own, other)
        assert found.source == "features"
        assert found.rate == pytest.approx(shared(own, [other]), rel=0.15)
    known = unseen().estimate("busy", "light").spread
    assert model.estimate("middle", "middle").spread > known


def test_a_profile_is_features_too():
    found = unseen().estimate(traits_of_profile(Profile(0.6, bandwidth_ratio=0.4)), "busy")
    assert found.source == "features"
    assert found.rate == pytest.approx(shared("middle", ["busy"]), rel=0.15)


def test_nothing_known_is_the_usual_and_says_so():
    model = unseen()
    found = model.estimate(Traits(), "busy")
    assert found.source == "default"
    assert found.rate == pytest.approx(np.median([one.ratio for one in ratios_of(measured())]))
    assert UnseenPairs((), {}).estimate("a", "b").source == "default"


def test_without_any_pair_time_is_divided_by_duty():
    model = UnseenPairs((), {"half": Traits({UTILISATION: 0.5}), "whole": Traits({UTILISATION: 1.0})})
    assert model.estimate("half", "half").rate == 1.0
    assert model.estimate("whole", "whole").rate == pytest.approx(0.5)
    assert model.estimate("half", "whole").source == "features"


def test_two_that_are_alike_in_everything_are_foretold_alike():
    """A copy of a workload, measured the same: swapping the two changes nothing."""
    table = measured()
    ratios, traits = list(ratios_of(table)), solo_traits(table)
    for one in ratios_of(table):
        if "busy" in (one.own, one.other) and one.own != one.other:
            names = ["copy" if name == "busy" else name for name in (one.own, one.other)]
            ratios.append(Ratio(names[0], names[1], one.ratio))
    ratios = [one for one in ratios if (one.own, one.other) != ("busy", "busy")]
    model = UnseenPairs(ratios, {**traits, "copy": traits["busy"]})
    there, back = model.estimate("busy", "copy"), model.estimate("copy", "busy")
    assert there.rate == pytest.approx(back.rate, rel=1e-6)
    assert model.estimate("busy", "busy").rate == pytest.approx(model.estimate("copy", "copy").rate, rel=1e-6)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0.01, 1.5), min_size=1, max_size=20), st.integers(0, 10**6))
def test_whatever_was_measured_rates_stay_within_bounds(figures, seed):
    names = list(USE)
    ratios = [Ratio(names[(seed + k) % 5], names[(seed // 7 + 3 * k) % 5], one) for k, one in enumerate(figures)]
    model = UnseenPairs(ratios, solo_traits(measured()))
    for found in model.estimates([(own, other) for own in (*names, "new") for other in names]):
        assert MIN_RATIO <= found.rate <= MAX_RATIO
        assert np.isfinite(found.spread)
        assert found.spread >= 0.0


def test_many_at_once_are_as_one_by_one():
    model = unseen(("busy", "light"))
    asked = [("busy", "light"), (Traits({UTILISATION: 0.2}), "busy"), ("nobody", "busy"), ("light", "busy")]
    assert [one.rate for one in model.estimates(asked)] == pytest.approx([model.estimate(*p).rate for p in asked])


def test_twins_count_both_sides_and_what_does_not_fit_not_at_all():
    table = replace(measured(), co_runs=(
        CoRun(("busy", "busy"), (1000, 1000), (at(0.4), at(0.6))), CoRun(("busy", "idle"), (1000, 1000)),
        CoRun(("busy", "light"), (500, 500), (at(0.3), at(0.9))),
    ))  # fmt: skip
    assert ratios_of(table) == [Ratio("busy", "busy", pytest.approx(0.5))]  # pyright: ignore[reportArgumentType]


def test_what_is_not_known_of_a_workload_is_taken_from_those_near():
    uses = [(0.1, 0.1), (0.2, 0.1), (0.9, 0.8), (1.0, 0.9)]
    known = {f"w{at}": Traits({UTILISATION: busy, BANDWIDTH: reads}) for at, (busy, reads) in enumerate(uses)}
    scale = Scale(known)
    busy, idle = (scale.point(Traits({UTILISATION: use}))[None] for use in (0.95, 0.15))
    found = [scale.in_units(BANDWIDTH, point) for point in (busy, idle)]
    assert found[0] is not None
    assert found[0][0] > 0.6
    assert found[1] is not None
    assert found[1][0] < 0.3
    assert scale.in_units(MEMORY, busy) is None
