"""Tests of the calibration bench on a synthetic log."""

import numpy as np
import pytest

from bench import calibration
from bench._cost import MAX_MS, cost
from bench._log_predictions import PREDICTED_LEVELS, predict_log
from bench._logs import Log
from bench._windows import by_chance, kept
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.prediction import NOTHING_KNOWN_US, certain
from gpusquad.model.units import US_PER_S
from gpusquad.predict.base import OnlinePredictor
from gpusquad.sim.traces import TraceJob

RUN_S = (10, 20, 30, 40)
WAIT_S = (0.0, 0.0, 35.0, 0.0)
SUBMIT_S = (0, 5, 6, 25)


class RecordingPredictor(OnlinePredictor):
    """Predictor that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def predict(self, job: Job):
        self.calls.append(f"? {job.id}")
        return certain(NOTHING_KNOWN_US, "none") if job.id == "j0" else certain(25 * US_PER_S, "history")

    def begin(self, job: Job, at_us: int) -> None:
        self.calls.append(f"> {job.id} {at_us // US_PER_S}")

    def learn(self, run) -> None:
        self.calls.append(f"< {run.job.id} {run.ended_us // US_PER_S}")


def tiny_log() -> Log:
    role = Role("p", 1, Request(gpus=1))
    jobs = [TraceJob(Job(f"j{i}", (role,), submitted_us=SUBMIT_S[i] * US_PER_S), RUN_S[i] * US_PER_S) for i in range(4)]
    return Log("tiny", 4, jobs, {"easy": np.array(WAIT_S)})


def test_predictor_learns_only_runs_that_have_ended():
    predictor = RecordingPredictor()
    rows = predict_log(tiny_log(), predictor)
    assert predictor.calls == ["? j0", "> j0 0", "? j1", "> j1 5", "? j2", "< j0 10", "< j1 25", "? j3"]
    assert np.isnan(rows[0]).all()
    assert rows[1:].tolist() == [[25.0] * len(PREDICTED_LEVELS)] * 3


def test_coverage_counts_only_jobs_with_a_prediction():
    rows = np.array([[np.nan] * 3, [25.0, 25.0, 25.0], [25.0, 30.0, 99.0], [25.0, 30.0, 99.0]])
    found = calibration.covered("x", np.array(RUN_S, dtype=float), rows, has_bars=True)
    deviations = [claim["value"] for claim in found if "covers" in claim["name"]]
    assert deviations == pytest.approx([50 - 100 / 3, 90 - 200 / 3, 1.0])
    assert [claim["ok"] for claim in found if "covers" in claim["name"]] == [False, False, False]


def test_pinball_loss_is_least_at_the_quantile():
    actual = np.random.default_rng(0).lognormal(3, 1, 4000)
    losses = {q: calibration.pinball(actual, np.full(4000, np.quantile(actual, q)), 0.9) for q in (0.5, 0.8, 0.9, 0.97)}
    assert min(losses, key=lambda q: losses[q]) == 0.9
    assert calibration.pinball(np.array([10.0]), np.array([4.0]), 0.9) == pytest.approx(5.4)
    assert calibration.pinball(np.array([4.0]), np.array([10.0]), 0.9) == pytest.approx(0.6)


def test_windows_show_a_drift_that_the_total_hides():
    covered = np.array([True] * 500 + [False] * 500)
    drifted = kept(covered, 0.5, 2.0, window=100)
    assert drifted.worst_off == 50
    assert drifted.mean_off > 40
    assert drifted.within < 2
    chance = by_chance(1000, 0.5, 2.0, window=100)
    assert 3 < chance.mean_off < 5
    assert chance.worst_off < 25
    assert drifted.within < chance.within < 50


def test_cost_has_a_bar_only_for_prediction_time():
    found = cost("recent", 50, asked=20)
    assert [claim["bar"] for claim in found] == [MAX_MS, None, None, None]
    assert all(claim["value"] > 0 for claim in found)
