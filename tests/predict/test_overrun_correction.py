"""Owners whose card time goes far past what is foretold of them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict import _overrun_correction as module
from gpusquad.predict._bins import COUNT, bin_of, quantiles
from gpusquad.predict._overrun_correction import OverrunCorrection
from tests.predict.past_runs import S, is_sound, job, ran

DAY = 86400


def mostly_short() -> np.ndarray:
    """Ten of eleven such runs last half a minute, one lasts six hours."""
    part = np.full(COUNT, 1e-6)
    part[bin_of(30 * S)], part[bin_of(6 * 3600 * S)] = 10 / 11, 1 / 11
    return part


def pads(
    honesty: OverrunCorrection, longs: int, *, user: str = "mal", run_s: float = 6 * 3600, at_s: float = 0
) -> None:
    """Ten short runs before each long one, all foretold to last half a minute."""
    for _ in range(longs):
        for _ in range(10):
            honesty.learn(ran(job(user), 30, ended_s=at_s), 30 * S)
        honesty.learn(ran(job(user), run_s, ended_s=at_s), 30 * S)


def middle_s(honesty: OverrunCorrection, user: str = "mal") -> float:
    weighed = honesty.corrected(job(user), mostly_short())
    return quantiles(mostly_short() if weighed is None else weighed, "x", 0).at(0.5) / S


def test_who_pads_is_foretold_by_where_its_card_time_goes():
    honesty = OverrunCorrection()
    pads(honesty, 5)
    assert middle_s(honesty) == pytest.approx(6 * 3600, rel=0.2)


def test_a_few_surprises_are_no_habit():
    honesty = OverrunCorrection()
    pads(honesty, module._IGNORED_OVERRUNS)
    assert honesty.corrected(job("mal"), mostly_short()) is None


def test_others_in_another_tenant_are_as_before():
    honesty = OverrunCorrection()
    pads(honesty, 9)
    assert honesty.corrected(job("ana", tenant="other"), mostly_short()) is None


def test_the_next_user_of_the_same_tenant_is_doubted_too():
    honesty = OverrunCorrection()
    pads(honesty, 9)
    assert honesty.corrected(job("new"), mostly_short()) is not None


@pytest.mark.parametrize("spread", [0.5, 1.0, 1.3])
def test_runs_that_merely_vary_are_honest(spread: float):
    """Run times spread by factors around a middle that is right."""
    honesty, dice = OverrunCorrection(), np.random.default_rng(1)
    for run_s in 600 * np.exp(dice.normal(0, spread, 400)):
        honesty.learn(ran(job(), run_s), 600 * S)
        assert honesty.corrected(job(), mostly_short()) is None


def test_to_run_shorter_than_foretold_earns_no_credit():
    """Else a few jobs that are foretold to be long and end at once would pay for the others."""
    honesty = OverrunCorrection()
    pads(honesty, 5)
    for _ in range(50):
        honesty.learn(ran(job("mal"), 1), 9 * 3600 * S)
    assert middle_s(honesty) > 3600


def test_honest_work_wins_trust_back_and_so_does_time():
    honesty = OverrunCorrection()
    pads(honesty, 5)
    for _ in range(5):
        honesty.learn(ran(job("mal"), 6 * 3600), 6 * 3600 * S)
    assert honesty.corrected(job("mal"), mostly_short()) is None
    pads(honesty, 5, user="eve")
    honesty.learn(ran(job("eve"), 3600, ended_s=150 * DAY), 3600 * S)
    assert honesty.corrected(job("eve", tenant="default"), mostly_short()) is None


@pytest.mark.parametrize("how", ["cancelled", "preempted", "lost"])
def test_runs_that_were_cut_early_say_nothing(how):
    honesty = OverrunCorrection()
    for _ in range(30):
        honesty.learn(ran(job(), 5, how), 600 * S)
    assert honesty.corrected(job(), mostly_short()) is None


runs = st.lists(
    st.tuples(st.integers(0, 1 << 60), st.integers(0, 1 << 60), st.integers(0, 1 << 60), st.sampled_from("ab")),
    max_size=12,
)


@given(runs)
def test_whatever_happened_what_is_weighed_is_a_distribution_no_shorter_than_before(seen):
    honesty = OverrunCorrection()
    for run_us, middle_us, ended_us, user in seen:
        honesty.learn(ran(job(user), run_us / S, ended_s=ended_us / S), middle_us)
    for user in "ab":
        weighed = honesty.corrected(job(user), mostly_short())
        if weighed is not None:
            before, after = (quantiles(part, "x", 0) for part in (mostly_short(), weighed))
            is_sound(after)
            assert all(new >= old for old, new in zip(before.values, after.values, strict=True))


@given(runs)
def test_kept_as_text_it_says_the_same(seen):
    honesty, other = OverrunCorrection(), OverrunCorrection()
    for run_us, middle_us, ended_us, user in seen:
        honesty.learn(ran(job(user), run_us / S, ended_s=ended_us / S), middle_us)
    other.load(json.loads(json.dumps(honesty.dump(), allow_nan=False)))
    for user in "abc":
        one, two = (each.corrected(job(user), mostly_short()) for each in (honesty, other))
        assert (one is None) == (two is None)
        assert one is None or (one == two).all()


def test_owners_are_bounded_and_nonsense_is_not_loaded():
    honesty = OverrunCorrection(most=4)
    for number in range(9):
        honesty.learn(ran(job(f"u{number}", tenant=f"t{number}"), 5), S)
    assert len(honesty._sums) == 4
    with pytest.raises((ValueError, TypeError)):
        honesty.load([[["t"], float("nan"), 0, 0, 0, []]])
