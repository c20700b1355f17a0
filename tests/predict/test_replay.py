"""Tests for learning from past runs by replaying submissions, starts and ends in their original order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad.model.job import Job, OfflineEstimate
from gpusquad.model.prediction import PastRun, Quantiles, certain
from gpusquad.predict import base
from gpusquad.predict.base import OnlinePredictor
from gpusquad.predict.combined import CombinedPredictor
from gpusquad.predict.replay import in_original_order
from tests.predict.past_runs import S, arbitrary_runs, job


class RecordingPredictor(OnlinePredictor):
    """A predictor that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, int]] = []

    def predict(self, job: Job) -> Quantiles:
        self.calls.append(("came", job.name, 0))
        return certain(S, "user")

    def begin(self, job: Job, at_us: int) -> None:
        self.calls.append(("begins", job.name, at_us // S))

    def learn(self, run: PastRun) -> None:
        self.calls.append(("ended", run.job.name, 0))


def past_run(name: str, submitted_s: int, started_s: int, ended_s: int, **rest) -> PastRun:
    return PastRun(job(name=name, at_s=submitted_s, **rest), (ended_s - started_s) * S, ended_s * S)


def recorded_calls(history: Sequence[PastRun]) -> list[tuple[str, str, int]]:
    recorder = RecordingPredictor()
    recorder.fit(history)
    return recorder.calls


def test_overlapping_runs_overlap_in_the_replay():
    found = recorded_calls([past_run("short", 3, 4, 6), past_run("long", 0, 1, 9)])
    assert found == [
        ("came", "long", 0), ("begins", "long", 1), ("came", "short", 0), ("begins", "short", 4),
        ("ended", "short", 0), ("ended", "long", 0),
    ]  # fmt: skip


def test_end_is_replayed_before_a_submission_at_the_same_time():
    found = recorded_calls([past_run("first", 0, 0, 5), past_run("second", 5, 5, 8)])
    assert [name for event, name, _ in found if event != "begins"] == ["first", "first", "second", "second"]


def test_next_attempt_is_predicted_after_the_end_of_the_previous_one():
    first_attempt = past_run("again", 0, 1, 5)
    found = recorded_calls([first_attempt, replace(first_attempt, ended_us=9 * S, run_us=3 * S)])
    assert [event for event, *_ in found] == ["came", "begins", "ended", "came", "begins", "ended"]
    assert found[4] == ("begins", "again", 6)


def test_only_the_newest_runs_are_predicted_and_all_are_learned(monkeypatch):
    monkeypatch.setattr(base, "MAX_PREDICTED", 2)
    found = recorded_calls([past_run(name, at_s, at_s, at_s + 1) for at_s, name in enumerate("abcd")])
    assert [name for event, name, _ in found if event == "came"] == ["c", "d"]
    assert [name for event, name, _ in found if event == "ended"] == ["a", "b", "c", "d"]


@given(st.lists(arbitrary_runs, max_size=12))
def test_replay_keeps_the_order_of_events_for_any_runs(runs):
    seen: dict[int, list[str]] = {}
    ends = []
    for event, index, _ in in_original_order(runs):
        seen.setdefault(index, []).append(event)
        ends += [index] if event == "ended" else []
    assert ends == list(range(len(runs)))
    assert all(events == ["came", "begins", "ended"] for events in seen.values())


# -- learning from prediction errors -------------------------------------------------------------------------------

job_histories = st.lists(
    st.tuples(
        st.integers(0, 4000),  # seconds since the previous submission
        st.integers(0, 3000),  # waiting time
        st.integers(1, 20_000),  # run time
        st.sampled_from([None, 600, 20_000]),  # user estimate
        st.sampled_from([None, 30, 3000]),  # offline estimate
        st.sampled_from(["ana", "ben"]),
        st.sampled_from(["succeeded", "failed", "cancelled"]),
    ),
    min_size=1,
    max_size=40,
)


def past_runs_of(rows) -> list[PastRun]:
    """Past runs in order of their ends. No two events have the same time, so that their order is unique."""
    runs, at_us = [], 0
    for number, (after_s, waits_s, runs_s, estimate_s, expected_s, user, how) in enumerate(rows):
        at_us += after_s * S + 1000
        expected = None if expected_s is None else OfflineEstimate(run_us=expected_s * S)
        of_job = job(user, estimate_s=estimate_s, at_s=0, expected=expected)
        of_job = replace(of_job, submitted_us=at_us)
        started_us = at_us + waits_s * S + 3 * number + 1
        runs.append(PastRun(of_job, runs_s * S + 7 * number, started_us + runs_s * S + 7 * number, how))
    return sorted(runs, key=lambda run: run.ended_us)


def replay_online(predictor: CombinedPredictor, runs: Sequence[PastRun]) -> None:
    """Reports submissions, starts and ends to the predictor in order of time, as the service does."""
    events: list[Any] = [(run.job.submitted_us, 1, lambda run=run: predictor.predict(run.job)) for run in runs]
    for run in runs:
        started_us = run.ended_us - run.run_us
        events.append((started_us, 2, lambda run=run, at_us=started_us: predictor.begin(run.job, at_us)))
        events.append((run.ended_us, 0, lambda run=run: predictor.learn(run)))
    for _, _, report in sorted(events, key=lambda event: event[:2]):
        report()


@settings(max_examples=40, deadline=None)
@given(job_histories)
def test_fitted_predictor_equals_one_that_learned_online(rows):
    runs = past_runs_of(rows)
    online, fitted = CombinedPredictor(rate=0.1), CombinedPredictor(rate=0.1)
    replay_online(online, runs)
    fitted.fit(runs)
    for new_job in (job("ana"), job("ben", estimate_s=600, expected=OfflineEstimate(run_us=3000 * S))):
        assert fitted.predict(new_job) == online.predict(new_job)
    assert fitted.dump() == online.dump()


def test_fit_trains_calibration_overrun_correction_and_scores():
    fitted = CombinedPredictor()
    fitted.fit(past_runs_of([(100, 0, 900, 600, 3000, "ana", "succeeded")] * 30))
    dumped = fitted.dump()
    assert any(dumped["calibration"]["all"])
    assert dumped["honesty"]
    assert [tenant for tenant, _ in dumped["scores"]] == ["default"]
