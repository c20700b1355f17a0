"""What running jobs teach."""

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


def tell(
    online: OnlineCorrections, before: RateEstimate, ratio: float, times: int = 1, seconds: float = HOUR, key: Key = KEY
) -> None:
    for _ in range(times):
        online.learn([key], [before], [1.0], online.corrected(key, before).rate, ratio, seconds)


@given(st.floats(0.25, 1.1))
def test_it_converges_to_what_is_seen(truth):
    online = OnlineCorrections()
    tell(online, GUESS, truth, 200)
    assert online.corrected(KEY, GUESS).rate == pytest.approx(truth, rel=0.02)


def test_more_hours_teach_more_than_minutes():
    minutes, hours = OnlineCorrections(), OnlineCorrections()
    tell(minutes, GUESS, 0.9, seconds=60)
    tell(hours, GUESS, 0.9)
    assert 0.6 < minutes.corrected(KEY, GUESS).rate < hours.corrected(KEY, GUESS).rate < 0.9


def test_a_measured_pair_moves_less_than_a_guess():
    sure, guess = OnlineCorrections(), OnlineCorrections()
    tell(sure, SURE, 0.7)
    tell(guess, GUESS, 0.7)
    assert sure.corrected(KEY, SURE).rate < guess.corrected(KEY, GUESS).rate < 0.7


def test_one_outlier_among_many_moves_little():
    online = OnlineCorrections()
    tell(online, GUESS, 0.8, 20)
    before = online.corrected(KEY, GUESS).rate
    tell(online, GUESS, 0.01)
    assert online.corrected(KEY, GUESS).rate == pytest.approx(before, rel=0.05)


@given(st.lists(st.tuples(st.floats(1e-6, 1e6), st.floats(1, 1e7)), max_size=30))
def test_whatever_is_told_a_measured_pair_is_off_by_no_more_than_its_limit(told):
    online = OnlineCorrections()
    for ratio, seconds in told:
        tell(online, SURE, ratio, seconds=seconds)
    rate = online.corrected(KEY, SURE).rate
    assert 1 / MAX_FACTOR["measured"] - 1e-9 <= rate / SURE.rate <= MAX_FACTOR["measured"] + 1e-9
    assert rate <= MAX_RATIO


def test_a_lasting_change_is_followed_even_after_long():
    online = OnlineCorrections()
    tell(online, GUESS, 0.8, 500)
    tell(online, GUESS, 0.5, 500)
    assert online.corrected(KEY, GUESS).rate == pytest.approx(0.5, rel=0.05)


def test_lies_are_unlearnt():
    online = OnlineCorrections()
    tell(online, SURE, 0.001, 100)
    assert online.corrected(KEY, SURE).rate == pytest.approx(0.6 / 1.25)
    tell(online, SURE, 0.6, 300)
    assert online.corrected(KEY, SURE).rate == pytest.approx(0.6, rel=0.05)


@pytest.mark.parametrize(("ratio", "seconds"), [(0.0, 10), (-1, 10), (float("nan"), 10), (float("inf"), 10),
                                                (0.5, 0), (0.5, -1), (0.5, float("nan"))])  # fmt: skip
def test_nonsense_teaches_nothing(ratio, seconds):
    online = OnlineCorrections()
    tell(online, GUESS, ratio, seconds=seconds)
    assert len(online) == 0


def test_of_two_neighbours_the_less_certain_one_is_corrected_more():
    online, other = OnlineCorrections(), Key("card", "a", "c")
    for _ in range(50):
        rates = [online.corrected(KEY, SURE).rate, online.corrected(other, GUESS).rate]
        online.learn([KEY, other], [SURE, GUESS], [1.0, 1.0], rates[0] * rates[1], 0.5, HOUR)
    found = [online.corrected(KEY, SURE).rate, online.corrected(other, GUESS).rate]
    assert found[0] * found[1] == pytest.approx(0.5, rel=0.03)
    assert abs(log(found[0] / 0.6)) < abs(log(found[1] / 0.6)) / 3


def test_memory_is_bounded_and_the_longest_unheard_goes_first():
    online = OnlineCorrections(max_pairs=3)
    for name in "bcdbe":
        tell(online, GUESS, 0.5, key=Key("card", "a", name))
    assert len(online) == 3
    assert online.get(Key("card", "a", "c")) is None
    assert online.get(Key("card", "a", "b")) is not None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.01, 2), st.floats(1, 1e6)), max_size=20))
def test_dump_and_load_are_exact(told):
    online = OnlineCorrections()
    for name, ratio, seconds in told:
        tell(online, GUESS, ratio, seconds=seconds, key=Key("card", name, "b"))
    again = OnlineCorrections.load(json.loads(json.dumps(online.dump())))
    assert again.dump() == online.dump()
    tell(online, GUESS, 0.7)
    tell(again, GUESS, 0.7)
    assert again.dump() == online.dump()


@pytest.mark.parametrize("data", [
    None, [], {}, {"format": 2, "pairs": []}, {"format": 1}, {"format": 1, "pairs": [1]},
    {"format": 1, "pairs": [["g", "a", "b", 0.0, 0.1]]}, {"format": 1, "pairs": [["g", "a", 3, 0.0, 0.1, 1.0]]},
    {"format": 1, "pairs": [["g", "a", "b", float("nan"), 0.1, 1.0]]},
    {"format": 1, "pairs": [["g", "a", "b", 50.0, 0.1, 1.0]]},
    {"format": 1, "pairs": [["g", "a", "b", 0.0, -0.1, 1.0]]},
    {"format": 1, "pairs": [["g", "a", "b", True, 0.1, 1.0]]},
])  # fmt: skip
def test_what_cannot_be_read_is_refused(data):
    with pytest.raises(Invalid):
        OnlineCorrections.load(data)


def test_a_pair_that_does_not_fit_stays_so():
    online = OnlineCorrections()
    tell(online, GUESS, 0.9, 10)
    out = RateEstimate(0.0, 0.0, "measured")
    assert online.corrected(KEY, out).rate == 0.0


def test_the_limits_are_those_of_what_is_corrected():
    """Learnt as a guess, measured later: the measured one's limit holds."""
    online = OnlineCorrections()
    tell(online, GUESS, 0.2, 300)
    assert online.corrected(KEY, GUESS).rate == pytest.approx(0.2, rel=0.03)
    assert online.corrected(KEY, SURE).rate == pytest.approx(0.6 * exp(-log(1.25)))
