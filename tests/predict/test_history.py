"""The predictor that compares a job with ever more similar runs of the past."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings

from gpusquad import registry
from gpusquad.model.errors import Invalid
from gpusquad.model.prediction import PastRun
from gpusquad.predict import history as module
from gpusquad.predict.history import History
from tests.predict.past_runs import (
    HOUR,
    S,
    happenings,
    is_sound,
    job,
    kept,
    learned,
    live_through,
    ran,
    strange_jobs,
)


@settings(max_examples=60)
@given(happenings, strange_jobs())
def test_nothing_that_can_happen_makes_it_fail(things, asked):
    history = History()
    live_through(history, things)
    is_sound(history.predict(asked))


# -- before much is known --------------------------------------------------------------------------------------------


def test_before_the_first_run_the_estimate_or_nothing():
    history = History()
    said = history.predict(job(estimate_s=50))
    assert (said.at(0.5), said.source) == (50 * S, "user")
    assert history.predict(job()).source == "none"
    history.learn(ran(job("somebody"), 10))
    assert history.predict(job()).source == "history"


def test_a_stranger_is_taken_for_one_of_the_tenant_and_then_for_anybody():
    history = learned(History(), [3600] * 20, user="ana", tenant="long")
    learned(history, [10] * 60, user="cy", tenant="short")
    newcomer, foreigner = job("new", tenant="long"), job("new", tenant="nowhere")
    assert history.predict(foreigner).at(0.7) < 60 * S
    assert history.predict(newcomer).at(0.7) > 1800 * S


def test_evidence_makes_confident():
    history = learned(History(), [60], user="bo")
    learned(history, [60] * 10, user="ana")
    confidences = [history.predict(job(user)).confidence for user in ("nobody", "bo", "ana")]
    assert confidences == sorted(confidences)
    assert confidences[0] == 0
    assert confidences[-1] > 0.9


# -- what such runs did ----------------------------------------------------------------------------------------------


def test_equal_runs_are_foretold_narrowly():
    said = learned(History(), [600] * 40).predict(job())
    assert said.at(0.5) == pytest.approx(600 * S, rel=0.25)
    assert said.at(0.9) < 2 * said.at(0.1)


def test_one_owner_with_two_lengths_gets_both():
    history = learned(History(), [20, 20, 7200] * 30)
    said = history.predict(job())
    assert said.at(0.2) < 60 * S
    assert said.at(0.95) > HOUR


def test_names_tell_families_apart():
    history, dice = History(), random.Random(1)
    for number in range(60):
        name, run_s = dice.choice([("smoke-test", 30), ("train-lr", 7200)])
        learned(history, [run_s], name=f"{name}{number}")
    short, long = (history.predict(job(name=name)) for name in ("smoke-test99", "train-lr0.001"))
    assert short.at(0.7) < 300 * S
    assert long.at(0.4) > 3000 * S


def test_others_do_not_change_what_is_said_of_a_well_known_owner():
    history = learned(History(), [600] * 40)
    before = history.predict(job()).at(0.5)
    learned(history, [20_000] * 40, user="bo", tenant="other")
    assert history.predict(job()).at(0.5) == pytest.approx(before, rel=0.3)


# -- runs that were cut, and those not over --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["timed_out", "cancelled", "preempted", "lost", "running"])
def test_cut_runs_raise_what_is_expected(how):
    whole, cut = History(), History()
    for history in (whole, cut):
        learned(history, [600, 1200, 2400] * 8)
        for _ in range(12):
            history.learn(ran(job(), 900, how if history is cut else "succeeded"))
    for level in (0.3, 0.5, 0.7, 0.9):
        assert cut.predict(job()).at(level) > whole.predict(job()).at(level)


def test_who_was_cut_at_once_says_nothing():
    history = learned(History(), [600] * 30)
    before = history.predict(job()).at(0.5)
    for _ in range(20):
        history.learn(ran(job(), 0, "preempted"))
    assert history.predict(job()).at(0.5) == pytest.approx(before, rel=0.1)


def test_a_failed_run_is_a_run():
    said = learned(History(), [600] * 5)
    for _ in range(30):
        said.learn(ran(job(), 5, "failed"))
    assert said.predict(job()).at(0.5) < 60 * S


@pytest.mark.parametrize("running", [3, 3 * module._MANY])
def test_those_still_running_raise_what_is_expected(running: int):
    history = learned(History(), [60, 60, 60, 7200] * 6)
    before = history.predict(job(at_s=10_000)).at(0.5)
    begun = [job() for _ in range(running)]
    for one in begun:
        history.begin(one, 5_000 * S)
    after = history.predict(job(at_s=10_000)).at(0.5)
    assert after > before
    for one in begun:
        history.learn(ran(one, 60))
    assert history.predict(job(at_s=10_000)).at(0.5) < after
    assert not history._running


def test_many_that_run_are_counted_as_one_by_one(monkeypatch):
    said = []
    for many in (0, 10**6):
        monkeypatch.setattr(module, "_MANY", many)
        history = learned(History(), [60, 600, 7200] * 4)
        for second in range(0, 9000, 300):
            history.begin(job(), second * S)
        said.append(history.predict(job(at_s=10_000)).values)
    assert said[0] == pytest.approx(said[1], rel=1e-6)


def test_a_job_that_starts_again_runs_once():
    history = learned(History(), [60])
    one = job()
    history.begin(one, 0)
    history.begin(one, 100 * S)
    assert list(history._running.values()) == [{one.id: 100 * S}]


# -- estimates and limits --------------------------------------------------------------------------------------------


def test_where_estimates_are_kept_nothing_is_expected_past_one():
    history = learned(History(), [3000] * 30, estimate_s=3600)
    assert history.predict(job(estimate_s=1800)).values[-1] == 1800 * S
    assert history.predict(job()).values[-1] > 3000 * S


def test_where_many_run_past_them_estimates_are_not_limits():
    history = learned(History(), [3000] * 30, user="bo", estimate_s=600)
    assert history.predict(job("bo", estimate_s=600)).at(0.9) > 1200 * S


def test_one_who_runs_past_is_not_believed_and_the_others_are():
    history = learned(History(), [100] * 300, estimate_s=3600)
    learned(history, [3000], user="bo", estimate_s=600)
    assert history.max_us(job("bo", estimate_s=600)) is None
    assert history.max_us(job("ana", estimate_s=600)) == 600 * S
    learned(history, [100] * 120, user="bo", estimate_s=600)
    assert history.max_us(job("bo", estimate_s=600)) == 600 * S


def test_runs_cut_before_their_estimate_do_not_show_that_estimates_are_kept():
    history = learned(History(), [3000] * 3, estimate_s=600)
    for _ in range(2000):
        history._learn_overrun(ran(job(estimate_s=600), 1, "preempted"), past=False)
    assert history.max_us(job("new", estimate_s=600)) is None


def test_a_limit_is_a_limit_always():
    history = learned(History(), [3000] * 30)
    one = replace(job(), limit_us=120 * S)
    assert history.predict(one).values[-1] == 120 * S
    assert history.predict(replace(one, limit_us=0)).values[0] == 1


# -- kept, and bounded -----------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(happenings, strange_jobs())
def test_kept_as_text_it_says_the_same(things, asked):
    history = History()
    live_through(history, [thing for thing in things if not isinstance(thing, tuple)])
    assert kept(history, History()).predict(asked) == history.predict(asked)


def test_kept_after_many_runs_it_goes_on_the_same():
    history = learned(History(), [20, 600, 20, 7200] * 60, estimate_s=9000)
    other = kept(history, History())
    for run_s in (30, 4000, 600):
        one = job(estimate_s=9000)
        assert history.predict(one) == other.predict(one)
        history.learn(ran(one, run_s))
        other.learn(ran(one, run_s))


@pytest.mark.parametrize("break_it", [
    lambda d: d.pop("weights"), lambda d: d.update(weights=[1.0]), lambda d: d.update(kinds=["x"]),
    lambda d: d.update(groups=d["groups"][1:]), lambda d: d.update(owners=None), lambda d: d.update(runs="many"),
])  # fmt: skip
def test_what_is_not_its_own_is_not_loaded(break_it):
    dumped = learned(History(), [60] * 3).dump()
    break_it(dumped)
    with pytest.raises((ValueError, KeyError, TypeError)):
        History().load(dumped)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MAX_RUNNING", 5)
    history = History(groups=3)
    for number in range(12):
        one = job(f"u{number}", name=f"{'abcdefghijkl'[number]}", estimate_s=10 + number)
        history.begin(one, 0)
        history.predict(one)
        history.learn(PastRun(replace(one, id=f"other{number}"), 50 * S))
    assert all(len(groups.runs) <= 3 for groups in history._groups)
    owners = history._owners
    assert max(len(owners.last), len(owners.alike), len(owners.asked), len(history._overruns)) <= 3
    assert sum(map(len, history._running.values())) == len(history._request_of_running) == 5


@pytest.mark.parametrize("bad", ["rate=-1", "rate=0.5", "groups=0", "prior=0", "rate=nan"])
def test_bad_parameters(bad: str):
    with pytest.raises(Invalid):
        registry.create("predictor", f"history:{bad}")
