"""Tests for the history predictor, which compares a job with groups of similar past runs."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings

from gpusquad import registry
from gpusquad.model.errors import Invalid
from gpusquad.model.prediction import PRIOR, PastRun
from gpusquad.predict import history as module
from gpusquad.predict.history import History
from tests.predict.past_runs import (
    HOUR,
    S,
    arbitrary_jobs,
    assert_valid,
    feed_events,
    job,
    past_run,
    predictor_events,
    reloaded,
    trained_on,
)


@settings(max_examples=60)
@given(predictor_events, arbitrary_jobs())
def test_predictions_are_valid_after_any_events(events, new_job):
    history = History()
    feed_events(history, events)
    assert_valid(history.predict(new_job))


# -- little history --------------------------------------------------------------------------------------------------


def test_prediction_uses_the_user_estimate_before_the_first_run():
    history = History()
    prediction = history.predict(job(estimate_s=50))
    assert (prediction.at(0.5), prediction.source) == (50 * S, "user")
    history.learn(past_run(job("somebody"), 10))
    assert history.predict(job(estimate_s=50)).source == "history"


def test_job_of_which_nothing_is_known_gets_the_prior_and_no_confidence():
    history = History()
    small, large = history.predict(job()), history.predict(job(gpus=8))
    assert {(one.source, one.confidence) for one in (small, large)} == {(PRIOR, 0.0)}
    assert small.at(0.5) == pytest.approx(1_100 * S, rel=0.2)
    assert small.at(0.9) == pytest.approx(8_700 * S, rel=0.2)
    assert large.at(0.5) > 10 * small.at(0.5)


def test_prior_moves_to_the_runs_of_all_owners():
    history = trained_on(History(), [60] * 40, user="somebody", tenant="theirs")
    prediction = history.predict(job(gpus=8))
    assert (prediction.source, prediction.confidence) == (PRIOR, 0.0)
    assert prediction.at(0.5) == pytest.approx(60 * S, rel=0.3)


@pytest.mark.parametrize("runs", [1, 5, 8])
def test_a_handful_of_short_runs_of_others_does_not_make_everybody_short(runs: int):
    """The word of a job without an estimate is a low quantile; of a new service, three minutes."""
    seen = trained_on(History(), [2] * runs, user="somebody", tenant="theirs")
    assert seen.predict(job()).at(0.3) > 45 * S


def test_few_runs_of_the_owner_are_not_yet_a_history():
    history = trained_on(History(), [60] * 2)
    assert history.predict(job()).source == PRIOR
    assert trained_on(history, [60] * 8).predict(job()).source == "history"


def test_unknown_user_is_predicted_from_the_tenant_then_from_all_runs():
    history = trained_on(History(), [3600] * 20, user="ana", tenant="long")
    trained_on(history, [10] * 50, user="cy", tenant="short")
    new_user, new_tenant = job("new", tenant="long"), job("new", tenant="nowhere")
    assert history.predict(new_tenant).at(0.7) < 60 * S
    assert history.predict(new_user).at(0.7) > 1800 * S


def test_confidence_grows_with_the_number_of_runs():
    history = trained_on(History(), [60], user="bo")
    trained_on(history, [60] * 10, user="ana")
    confidences = [history.predict(job(user)).confidence for user in ("nobody", "bo", "ana")]
    assert confidences == sorted(confidences)
    assert confidences[0] == 0
    assert confidences[-1] > 0.9


def test_job_never_seen_before_gets_little_confidence_from_other_jobs_with_the_same_request():
    history = trained_on(History(), [60] * 40, name="resnet-1", command="python resnet.py")
    known, other = (history.predict(job(name=name, command=f"python {name}.py")) for name in ("resnet-2", "llama-1"))
    assert known.confidence > 0.9
    assert other.confidence < 0.25


def test_runs_that_were_cut_short_give_no_confidence():
    history = History()
    for _ in range(20):
        history.learn(past_run(job(), 60, "cancelled"))
    assert history.predict(job()).confidence == 0


# -- similar runs ----------------------------------------------------------------------------------------------------


def test_equal_runs_give_a_narrow_prediction():
    prediction = trained_on(History(), [600] * 40).predict(job())
    assert prediction.at(0.5) == pytest.approx(600 * S, rel=0.25)
    assert prediction.at(0.9) < 2 * prediction.at(0.1)


def test_prediction_covers_both_usual_run_times_of_an_owner():
    history = trained_on(History(), [20, 20, 7200] * 30)
    prediction = history.predict(job())
    assert prediction.at(0.2) < 60 * S
    assert prediction.at(0.95) > HOUR


def test_prediction_distinguishes_jobs_by_name_family():
    history, rng = History(), random.Random(1)
    for number in range(60):
        name, run_s = rng.choice([("smoke-test", 30), ("train-lr", 7200)])
        trained_on(history, [run_s], name=f"{name}{number}")
    short, long = (history.predict(job(name=name)) for name in ("smoke-test99", "train-lr0.001"))
    assert short.at(0.7) < 300 * S
    assert long.at(0.4) > 3000 * S


def test_prediction_for_a_known_owner_is_independent_of_other_tenants():
    history = trained_on(History(), [600] * 40)
    before = history.predict(job()).at(0.5)
    trained_on(history, [20_000] * 40, user="bo", tenant="other")
    assert history.predict(job()).at(0.5) == pytest.approx(before, rel=0.3)


# -- cut runs and running jobs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["timed_out", "cancelled", "preempted", "lost", "running"])
def test_cut_runs_raise_the_prediction(how):
    whole, cut = History(), History()
    for history in (whole, cut):
        trained_on(history, [600, 1200, 2400] * 8)
        for _ in range(12):
            history.learn(past_run(job(), 900, how if history is cut else "succeeded"))
    for level in (0.3, 0.5, 0.7, 0.9):
        assert cut.predict(job()).at(level) > whole.predict(job()).at(level)


def test_runs_cut_at_once_do_not_change_the_prediction():
    history = trained_on(History(), [600] * 30)
    before = history.predict(job()).at(0.5)
    for _ in range(20):
        history.learn(past_run(job(), 0, "preempted"))
    assert history.predict(job()).at(0.5) == pytest.approx(before, rel=0.1)


def test_failed_runs_count_as_complete_runs():
    history = trained_on(History(), [600] * 5)
    for _ in range(30):
        history.learn(past_run(job(), 5, "failed"))
    assert history.predict(job()).at(0.5) < 60 * S


@pytest.mark.parametrize("running", [3, 3 * module._MANY])
def test_long_running_jobs_raise_the_prediction(running: int):
    history = trained_on(History(), [60, 60, 60, 7200] * 6)
    before = history.predict(job(at_s=10_000)).at(0.5)
    started_jobs = [job() for _ in range(running)]
    for started_job in started_jobs:
        history.begin(started_job, 5_000 * S)
    after = history.predict(job(at_s=10_000)).at(0.5)
    assert after > before
    for started_job in started_jobs:
        history.learn(past_run(started_job, 60))
    assert history.predict(job(at_s=10_000)).at(0.5) < after
    assert not history._running


def test_many_running_jobs_are_counted_as_if_one_by_one(monkeypatch):
    predictions = []
    for many in (0, 10**6):
        monkeypatch.setattr(module, "_MANY", many)
        history = trained_on(History(), [60, 600, 7200] * 4)
        for second in range(0, 9000, 300):
            history.begin(job(), second * S)
        predictions.append(history.predict(job(at_s=10_000)).values)
    assert predictions[0] == pytest.approx(predictions[1], rel=1e-6)


def test_restarted_job_is_counted_as_one_running_job():
    history = trained_on(History(), [60])
    new_job = job()
    history.begin(new_job, 0)
    history.begin(new_job, 100 * S)
    assert list(history._running.values()) == [{new_job.id: 100 * S}]


# -- estimates and limits --------------------------------------------------------------------------------------------


def test_prediction_does_not_exceed_the_estimate_when_estimates_hold():
    history = trained_on(History(), [3000] * 30, estimate_s=3600)
    assert history.predict(job(estimate_s=1800)).values[-1] == 1800 * S
    assert history.predict(job()).values[-1] > 3000 * S


def test_prediction_exceeds_the_estimate_when_runs_exceed_estimates():
    history = trained_on(History(), [3000] * 30, user="bo", estimate_s=600)
    assert history.predict(job("bo", estimate_s=600)).at(0.9) > 1200 * S


def test_overrun_makes_only_that_users_estimates_unreliable():
    history = trained_on(History(), [100] * 300, estimate_s=3600)
    trained_on(history, [3000], user="bo", estimate_s=600)
    assert history.max_us(job("bo", estimate_s=600)) is None
    assert history.max_us(job("ana", estimate_s=600)) == 600 * S
    trained_on(history, [100] * 120, user="bo", estimate_s=600)
    assert history.max_us(job("bo", estimate_s=600)) == 600 * S


def test_runs_cut_early_do_not_make_estimates_reliable():
    history = trained_on(History(), [3000] * 3, estimate_s=600)
    for _ in range(2000):
        history._learn_overrun(past_run(job(estimate_s=600), 1, "preempted"), past=False)
    assert history.max_us(job("new", estimate_s=600)) is None


def test_prediction_never_exceeds_the_time_limit():
    history = trained_on(History(), [3000] * 30)
    new_job = replace(job(), limit_us=120 * S)
    assert history.predict(new_job).values[-1] == 120 * S
    assert history.predict(replace(new_job, limit_us=0)).values[0] == 1


# -- storage and bounds ----------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(predictor_events, arbitrary_jobs())
def test_reloaded_predictor_predicts_the_same_after_any_events(events, new_job):
    history = History()
    feed_events(history, [event for event in events if not isinstance(event, tuple)])
    assert reloaded(history, History()).predict(new_job) == history.predict(new_job)


def test_reloaded_predictor_continues_to_predict_the_same():
    history = trained_on(History(), [20, 600, 20, 7200] * 60, estimate_s=9000)
    restored = reloaded(history, History())
    for run_s in (30, 4000, 600):
        new_job = job(estimate_s=9000)
        assert history.predict(new_job) == restored.predict(new_job)
        history.learn(past_run(new_job, run_s))
        restored.learn(past_run(new_job, run_s))


@pytest.mark.parametrize("damage", [
    lambda d: d.pop("weights"), lambda d: d.update(weights=[1.0]), lambda d: d.update(kinds=["x"]),
    lambda d: d.update(groups=d["groups"][1:]), lambda d: d.update(owners=None), lambda d: d.update(runs="many"),
])  # fmt: skip
def test_invalid_state_is_not_loaded(damage):
    dumped = trained_on(History(), [60] * 3).dump()
    damage(dumped)
    with pytest.raises((ValueError, KeyError, TypeError)):
        History().load(dumped)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MAX_RUNNING", 5)
    history = History(groups=3)
    for number in range(12):
        new_job = job(f"u{number}", name=f"{'abcdefghijkl'[number]}", estimate_s=10 + number)
        history.begin(new_job, 0)
        history.predict(new_job)
        history.learn(PastRun(replace(new_job, id=f"other{number}"), 50 * S))
    assert all(len(groups.runs) <= 3 for groups in history._groups)
    owners = history._owners
    assert max(len(owners.last), len(owners.alike), len(owners.asked), len(history._overruns)) <= 3
    assert sum(map(len, history._running.values())) == len(history._request_of_running) == 5


@pytest.mark.parametrize("bad", ["rate=-1", "rate=0.5", "groups=0", "prior=0", "rate=nan"])
def test_bad_parameters_are_refused(bad: str):
    with pytest.raises(Invalid):
        registry.create("predictor", f"history:{bad}")
