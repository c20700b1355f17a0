"""The predictor that weighs its sources and keeps what it says calibrated."""

import random

import numpy as np
import pytest
from hypothesis import given, settings

from gpusquad import registry
from gpusquad.model.errors import Invalid
from gpusquad.model.job import OfflineEstimate
from gpusquad.predict import combined as module
from gpusquad.predict.combined import CombinedPredictor
from tests.predict.past_runs import S, happenings, is_sound, job, kept, learned, live_through, ran, strange_jobs


def expecting(run_s: float, **rest):
    return job(expected=OfflineEstimate(run_us=round(run_s * S)), **rest)


@settings(max_examples=60)
@given(happenings, strange_jobs())
def test_nothing_that_can_happen_makes_it_fail(things, asked):
    combined = CombinedPredictor()
    live_through(combined, things)
    is_sound(combined.predict(asked))


# -- before much is known --------------------------------------------------------------------------------------------


def test_before_the_first_run_the_expected_then_the_estimate_then_nothing():
    combined = CombinedPredictor()
    said = combined.predict(expecting(600, estimate_s=9000))
    assert said.source == "analytical"
    assert said.at(0.5) == pytest.approx(600 * S, rel=0.2)
    assert (combined.predict(job(estimate_s=50)).source, combined.predict(job()).source) == ("user", "none")


# -- who is right counts more ----------------------------------------------------------------------------------------


def teach(combined: CombinedPredictor, tenant: str, said_s: float, run_s: float, runs: int = 40) -> None:
    for _ in range(runs):
        one = expecting(said_s, tenant=tenant)
        combined.predict(one)
        combined.learn(ran(one, run_s))


def test_the_better_source_wins_for_each_tenant():
    combined = CombinedPredictor()
    dice = random.Random(1)
    for _ in range(40):  # these know how long they run, and no two runs are alike
        run_s = 10 ** dice.uniform(1, 4.5)
        teach(combined, "knows", run_s, run_s, 1)
        teach(combined, "boasts", 20, 3000, 1)
    knows, boasts = (
        dict(zip("ha", combined.weights(t, ["history", "analytical"]), strict=True)) for t in ("knows", "boasts")
    )
    assert knows["a"] > 0.95
    assert boasts["h"] > 0.95
    right, wrong = combined.predict(expecting(20, tenant="knows")), combined.predict(expecting(20, tenant="boasts"))
    assert (right.source, wrong.source) == ("analytical", "history")
    assert right.at(0.5) < 60 * S
    assert wrong.at(0.5) > 1000 * S


def test_weights_are_parts_of_one_and_even_at_first():
    combined = CombinedPredictor()
    assert combined.weights("new", ["history", "analytical"]) == [0.5, 0.5]
    teach(combined, "t", 20, 3000)
    assert sum(combined.weights("t", ["history", "analytical"])) == pytest.approx(1.0)


# -- calibrated ------------------------------------------------------------------------------------------------------


def test_what_is_called_nine_of_ten_is():
    """Owners whose runs get longer all the time: history alone would always be a step behind."""
    combined, dice = CombinedPredictor(rate=0.02), random.Random(3)
    inside = []
    for turn in range(900):
        one = job(f"u{turn % 3}", estimate_s=10**6)
        said = combined.predict(one)
        run_s = 2 ** dice.gauss(7 + turn / 300, 1.5)
        inside.append([run_s * S <= said.at(level) for level in (0.5, 0.9)])
        combined.learn(ran(one, run_s))
    assert np.mean(inside[300:], axis=0) == pytest.approx([0.5, 0.9], abs=0.05)


def test_a_stream_of_cut_runs_lowers_nothing():
    combined = learned(CombinedPredictor(rate=0.1), [600] * 40)
    before = combined.predict(job()).values
    for _ in range(10):
        one = job()
        combined.predict(one)
        combined.learn(ran(one, 1, "cancelled"))
    after = combined.predict(job()).values
    assert all(new >= 0.95 * old for old, new in zip(before, after, strict=True))


# -- kept, and bounded -----------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(happenings, strange_jobs())
def test_kept_as_text_it_says_the_same(things, asked):
    combined = CombinedPredictor()
    live_through(combined, [thing for thing in things if not isinstance(thing, tuple)])
    assert kept(combined, CombinedPredictor()).predict(asked) == combined.predict(asked)


def test_kept_after_many_runs_it_goes_on_the_same():
    combined = learned(CombinedPredictor(), [20, 600, 20, 7200] * 40)
    teach(combined, "t", 20, 3000)
    other = kept(combined, CombinedPredictor())
    for run_s in (30, 4000, 600):
        one = expecting(100)
        assert combined.predict(one) == other.predict(one)
        combined.learn(ran(one, run_s))
        other.learn(ran(one, run_s))


def test_what_was_written_for_other_levels_is_not_loaded():
    dumped = CombinedPredictor().dump()
    with pytest.raises(ValueError, match="levels"):
        CombinedPredictor().load(dumped | {"levels": [0.5]})


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MAX_OPEN", 5)
    monkeypatch.setattr(module, "_MAX_TENANTS", 2)
    combined = CombinedPredictor()
    for number in range(6):
        teach(combined, f"t{number}", 20, 30, 2)
    for _ in range(20):
        combined.predict(job())
    assert len(combined._open) == 5
    assert list(combined._scores) == ["t4", "t5"]


def test_a_single_source_is_not_remembered_bin_by_bin():
    """Hundreds of thousands may wait."""
    combined = learned(CombinedPredictor(), [60])
    combined.predict(job())
    assert [said.parts for said in combined._open.values()] == [()]


@pytest.mark.parametrize("bad", ["rate=-1", "rate=0.6", "rate=nan", "honest=perhaps"])
def test_bad_parameters(bad: str):
    with pytest.raises(Invalid):
        registry.create("predictor", f"combined:{bad}")
