"""Tests for corrections of rates by running jobs."""

import json
from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.predict.interference.online import MAX_FACTOR, Key, OnlineCorrections
from gpusquad.predict.interference.unseen import MAX_RATIO, RateEstimate

KEY = Key("card", "a", "b")
HOUR = 3600.0
GUESS = RateEstimate(0.6, 0.15, "features")
SURE = RateEstimate(0.6, 0.01, "measured")


def observe(
    online: OnlineCorrections, before: RateEstimate, ratio: float, times: int = 1, seconds: float = HOUR, key: Key = KEY
) -> None:
    for _ in range(times):
        online.learn([key], [before], [1.0], online.corrected(key, before).rate, ratio, seconds)


@given(st.floats(0.25, 1.1))
def test_rate_converges_to_the_observed_ratio(actual):
    online = OnlineCorrections()
    observe(online, GUESS, actual, 200)
    assert online.corrected(KEY, GUESS).rate == pytest.approx(actual, rel=0.02)


def test_longer_observation_has_more_weight():
    minutes, hours = OnlineCorrections(), OnlineCorrections()
    observe(minutes, GUESS, 0.9, seconds=60)
    observe(hours, GUESS, 0.9)
    assert 0.6 < minutes.corrected(KEY, GUESS).rate < hours.corrected(KEY, GUESS).rate < 0.9


def test_measured_pair_changes_less_than_a_guess():
    sure, guess = OnlineCorrections(), OnlineCorrections()
    observe(sure, SURE, 0.7)
    observe(guess, GUESS, 0.7)
    assert sure.corrected(KEY, SURE).rate < guess.corrected(KEY, GUESS).rate < 0.7


def test_single_outlier_changes_the_rate_little():
    online = OnlineCorrections()
    observe(online, GUESS, 0.8, 20)
    before = online.corrected(KEY, GUESS).rate
    observe(online, GUESS, 0.01)
    assert online.corrected(KEY, GUESS).rate == pytest.approx(before, rel=0.05)


@given(st.lists(st.tuples(st.floats(1e-6, 1e6), st.floats(1, 1e7)), max_size=30))
def test_correction_of_a_measured_pair_stays_within_its_limit(observations):
    online = OnlineCorrections()
    for ratio, seconds in observations:
        observe(online, SURE, ratio, seconds=seconds)
    rate = online.corrected(KEY, SURE).rate
    assert 1 / MAX_FACTOR["measured"] - 1e-9 <= rate / SURE.rate <= MAX_FACTOR["measured"] + 1e-9
    assert rate <= MAX_RATIO


def test_lasting_change_is_followed_after_many_observations():
    online = OnlineCorrections()
    observe(online, GUESS, 0.8, 500)
    observe(online, GUESS, 0.5, 500)
    assert online.corrected(KEY, GUESS).rate == pytest.approx(0.5, rel=0.05)


def test_false_observations_are_unlearned():
    online = OnlineCorrections()
    observe(online, SURE, 0.001, 100)
    assert online.corrected(KEY, SURE).rate == pytest.approx(0.6 / 1.25)
    observe(online, SURE, 0.6, 300)
    assert online.corrected(KEY, SURE).rate == pytest.approx(0.6, rel=0.05)


@pytest.mark.parametrize(("ratio", "seconds"), [(0.0, 10), (-1, 10), (float("nan"), 10), (float("inf"), 10),
                                                (0.5, 0), (0.5, -1), (0.5, float("nan"))])  # fmt: skip
def test_invalid_observations_are_ignored(ratio, seconds):
    online = OnlineCorrections()
    observe(online, GUESS, ratio, seconds=seconds)
    assert len(online) == 0


def test_less_certain_neighbour_is_corrected_more():
    online, other = OnlineCorrections(), Key("card", "a", "c")
    for _ in range(50):
        rates = [online.corrected(KEY, SURE).rate, online.corrected(other, GUESS).rate]
        online.learn([KEY, other], [SURE, GUESS], [1.0, 1.0], rates[0] * rates[1], 0.5, HOUR)
    found = [online.corrected(KEY, SURE).rate, online.corrected(other, GUESS).rate]
    assert found[0] * found[1] == pytest.approx(0.5, rel=0.03)
    assert abs(log(found[0] / 0.6)) < abs(log(found[1] / 0.6)) / 3


def test_number_of_pairs_is_bounded_and_the_least_recent_is_dropped():
    online = OnlineCorrections(max_pairs=3)
    for name in "bcdbe":
        observe(online, GUESS, 0.5, key=Key("card", "a", name))
    assert len(online) == 3
    assert online.get(Key("card", "a", "c")) is None
    assert online.get(Key("card", "a", "b")) is not None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.01, 2), st.floats(1, 1e6)), max_size=20))
def test_dump_and_load_are_exact(observations):
    online = OnlineCorrections()
    for name, ratio, seconds in observations:
        observe(online, GUESS, ratio, seconds=seconds, key=Key("card", name, "b"))
    restored = OnlineCorrections.load(json.loads(json.dumps(online.dump())))
    assert restored.dump() == online.dump()
    observe(online, GUESS, 0.7)
    observe(restored, GUESS, 0.7)
    assert restored.dump() == online.dump()


@pytest.mark.parametrize("data", [
    None, [], {}, {"format": 2, "pairs": []}, {"format": 1}, {"format": 1, "pairs": [1]},
    {"format": 1, "pairs": [["g", "a", "b", 0.0, 0.1]]}, {"format": 1, "pairs": [["g", "a", 3, 0.0, 0.1, 1.0]]},
    {"format": 1, "pairs": [["g", "a", "b", float("nan"), 0.1, 1.0]]},
    {"format": 1, "pairs": [["g", "a", "b", 50.0, 0.1, 1.0]]},
    {"format": 1, "pairs": [["g", "a", "b", 0.0, -0.1, 1.0]]},
    {"format": 1, "pairs": [["g", "a", "b", True, 0.1, 1.0]]},
])  # fmt: skip
def test_invalid_data_is_refused(data):
    with pytest.raises(Invalid):
        OnlineCorrections.load(data)


def test_pair_that_does_not_fit_is_not_corrected():
    online = OnlineCorrections()
    observe(online, GUESS, 0.9, 10)
    does_not_fit = RateEstimate(0.0, 0.0, "measured")
    assert online.corrected(KEY, does_not_fit).rate == 0.0


def test_limit_follows_the_source_of_the_estimate():
    """A correction learned for a guess is limited as for a measured pair once the pair is measured."""
    online = OnlineCorrections()
    observe(online, GUESS, 0.2, 300)
    assert online.corrected(KEY, GUESS).rate == pytest.approx(0.2, rel=0.03)
    assert online.corrected(KEY, SURE).rate == pytest.approx(0.6 * exp(-log(1.25)))
