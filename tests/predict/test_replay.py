"""Learning from the past is living through it once more: foretold, begun, over, each in its turn."""

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
from tests.predict.past_runs import S, job, strange_runs


class Diary(OnlinePredictor):
    """What happened to it."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, int]] = []

    def predict(self, job: Job) -> Quantiles:
        self.lines.append(("came", job.name, 0))
        return certain(S, "user")

    def begin(self, job: Job, at_us: int) -> None:
        self.lines.append(("begins", job.name, at_us // S))

    def learn(self, run: PastRun) -> None:
        self.lines.append(("ended", run.job.name, 0))


def past(name: str, came_s: int, began_s: int, ended_s: int, **rest) -> PastRun:
    return PastRun(job(name=name, at_s=came_s, **rest), (ended_s - began_s) * S, ended_s * S)


def diary(history: Sequence[PastRun]) -> list[tuple[str, str, int]]:
    found = Diary()
    found.fit(history)
    return found.lines


def test_what_overlapped_overlaps():
    found = diary([past("short", 3, 4, 6), past("long", 0, 1, 9)])
    assert found == [
        ("came", "long", 0), ("begins", "long", 1), ("came", "short", 0), ("begins", "short", 4),
        ("ended", "short", 0), ("ended", "long", 0),
    ]  # fmt: skip


def test_at_one_instant_what_ends_is_known_to_what_comes():
    found = diary([past("first", 0, 0, 5), past("second", 5, 5, 8)])
    assert [name for what, name, _ in found if what != "begins"] == ["first", "first", "second", "second"]


def test_the_next_attempt_is_foretold_when_the_one_before_is_over():
    one = past("again", 0, 1, 5)
    found = diary([one, replace(one, ended_us=9 * S, run_us=3 * S)])
    assert [what for what, *_ in found] == ["came", "begins", "ended", "came", "begins", "ended"]
    assert found[4] == ("begins", "again", 6)


def test_only_the_newest_are_foretold_and_all_are_learned(monkeypatch):
    monkeypatch.setattr(base, "MAX_PREDICTED", 2)
    found = diary([past(name, at_s, at_s, at_s + 1) for at_s, name in enumerate("abcd")])
    assert [name for what, name, _ in found if what == "came"] == ["c", "d"]
    assert [name for what, name, _ in found if what == "ended"] == ["a", "b", "c", "d"]


@given(st.lists(strange_runs, max_size=12))
def test_whatever_the_past_holds_each_run_comes_then_begins_then_ends_and_ends_stay_in_order(runs):
    seen: dict[int, list[str]] = {}
    ends = []
    for what, index, _ in in_original_order(runs):
        seen.setdefault(index, []).append(what)
        ends += [index] if what == "ended" else []
    assert ends == list(range(len(runs)))
    assert all(whats == ["came", "begins", "ended"] for whats in seen.values())


# -- what is learned from being wrong ------------------------------------------------------------------------------

lives = st.lists(
    st.tuples(
        st.integers(0, 4000),  # came after the one before
        st.integers(0, 3000),  # waited
        st.integers(1, 20_000),  # ran
        st.sampled_from([None, 600, 20_000]),  # what the user says
        st.sampled_from([None, 30, 3000]),  # what the file expects
        st.sampled_from(["ana", "ben"]),
        st.sampled_from(["succeeded", "failed", "cancelled"]),
    ),
    min_size=1,
    max_size=40,
)


def lived(rows) -> list[PastRun]:
    """Nothing happens in the same microsecond: then there is no question what came first."""
    runs, at_us = [], 0
    for number, (after_s, waits_s, runs_s, estimate_s, expected_s, who, how) in enumerate(rows):
        at_us += after_s * S + 1000
        expected = None if expected_s is None else OfflineEstimate(run_us=expected_s * S)
        one = job(who, estimate_s=estimate_s, at_s=0, expected=expected)
        one = replace(one, submitted_us=at_us)
        began_us = at_us + waits_s * S + 3 * number + 1
        runs.append(PastRun(one, runs_s * S + 7 * number, began_us + runs_s * S + 7 * number, how))
    return sorted(runs, key=lambda run: run.ended_us)


def told_online(predictor: CombinedPredictor, runs: Sequence[PastRun]) -> None:
    """As a service is told: by the clock."""
    happened: list[Any] = [(run.job.submitted_us, 1, lambda run=run: predictor.predict(run.job)) for run in runs]
    for run in runs:
        began_us = run.ended_us - run.run_us
        happened.append((began_us, 2, lambda run=run, at_us=began_us: predictor.begin(run.job, at_us)))
        happened.append((run.ended_us, 0, lambda run=run: predictor.learn(run)))
    for _, _, do in sorted(happened, key=lambda one: one[:2]):
        do()


@settings(max_examples=40, deadline=None)
@given(lives)
def test_learned_from_history_it_says_what_it_would_say_had_it_been_there(rows):
    runs = lived(rows)
    online, fitted = CombinedPredictor(rate=0.1), CombinedPredictor(rate=0.1)
    told_online(online, runs)
    fitted.fit(runs)
    for asked in (job("ana"), job("ben", estimate_s=600, expected=OfflineEstimate(run_us=3000 * S))):
        assert fitted.predict(asked) == online.predict(asked)
    assert fitted.dump() == online.dump()


def test_after_it_calibration_honesty_and_scores_are_there():
    fitted = CombinedPredictor()
    fitted.fit(lived([(100, 0, 900, 600, 3000, "ana", "succeeded")] * 30))
    dumped = fitted.dump()
    assert any(dumped["calibration"]["all"])
    assert dumped["honesty"]
    assert [tenant for tenant, _ in dumped["scores"]] == ["default"]
