"""LockedPredictor: how a predictor's quantiles become the core's prediction."""

from __future__ import annotations

from dataclasses import replace

from gpusquad.core.state.state import UNKNOWN
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.prediction import NOTHING_KNOWN_US, PastRun, Quantiles, certain
from gpusquad.predict.base import OnlinePredictor
from gpusquad.server.services.prediction.predictor import LockedPredictor


class FixedPredictor(OnlinePredictor):
    """Returns the given quantiles, or fails without any."""

    def __init__(self, run: Quantiles | None) -> None:
        self.run = run

    def predict(self, job: Job) -> Quantiles:
        if self.run is None:
            raise ZeroDivisionError("no data")
        return self.run

    def learn(self, run: PastRun) -> None: ...


def make_job(**fields) -> Job:
    return Job("j", (Role("task", 1, Request(gpus=1)),), **fields)


def predict(run: Quantiles | None, done_us: int = 0, **job_fields):
    return LockedPredictor(FixedPredictor(run)).predict(make_job(**job_fields), done_us)


WIDE = Quantiles((0.5, 0.9, 0.99), (100, 200, 300), "history", 0.4)


def test_prediction_gives_the_core_a_median_and_a_p90() -> None:
    prediction = predict(WIDE)
    assert (prediction.forecast.mid_us, prediction.forecast.high_us, prediction.forecast.source) == (
        100,
        200,
        "history",
    )
    assert prediction.run is WIDE


def test_prediction_is_capped_by_the_limit_and_is_the_limit_when_nothing_is_known() -> None:
    prediction = predict(WIDE, limit_us=150)
    assert prediction.run is not None
    assert (prediction.forecast.mid_us, prediction.forecast.high_us, prediction.run.values) == (
        100,
        150,
        (100, 150, 150),
    )
    for run in (WIDE, certain(NOTHING_KNOWN_US, "none")):
        prediction = predict(run, limit_us=50)
        assert prediction.run is not None
        assert (prediction.forecast.mid_us, prediction.forecast.high_us, prediction.run.source) == (50, 50, "limit")


def test_prediction_is_unknown_when_the_predictor_knows_nothing() -> None:
    prediction = predict(certain(NOTHING_KNOWN_US, "none"))
    assert prediction.forecast is UNKNOWN
    assert prediction.run is None


def test_completed_time_is_subtracted_from_the_quantiles() -> None:
    prediction = predict(WIDE, done_us=150)
    assert prediction.run is not None
    assert prediction.run.values == (1, 50, 150)
    assert prediction.forecast.mid_us == 1


def test_completed_time_is_subtracted_from_the_mean() -> None:
    assert predict(replace(WIDE, mean=250.0), done_us=150).forecast.mean_us == 100
    assert predict(replace(WIDE, mean=250.0), done_us=400).forecast.mean_us == 1
    assert predict(replace(WIDE, mean=250.0)).forecast.mean_us == 250


def test_estimate_is_used_when_the_predictor_fails() -> None:
    assert predict(None, estimate_us=77).forecast.mid_us == 77
    assert predict(None).forecast is UNKNOWN
