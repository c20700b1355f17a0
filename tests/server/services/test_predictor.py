"""What becomes of a prediction on its way to the core."""

from __future__ import annotations

from dataclasses import replace

from gpusquad.core.state.state import UNKNOWN
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.prediction import NOTHING_KNOWN_US, PastRun, Quantiles, certain
from gpusquad.predict.base import OnlinePredictor
from gpusquad.server.services.prediction.predictor import LockedPredictor


class Says(OnlinePredictor):
    """Always the same."""

    def __init__(self, run: Quantiles | None) -> None:
        self.run = run

    def predict(self, job: Job) -> Quantiles:
        if self.run is None:
            raise ZeroDivisionError("no data")
        return self.run

    def learn(self, run: PastRun) -> None: ...


def a_job(**rest) -> Job:
    return Job("j", (Role("task", 1, Request(gpus=1)),), **rest)


def predict(run: Quantiles | None, done_us: int = 0, **of_job):
    return LockedPredictor(Says(run)).predict(a_job(**of_job), done_us)


WIDE = Quantiles((0.5, 0.9, 0.99), (100, 200, 300), "history", 0.4)


def test_the_core_gets_a_middle_and_a_high_end() -> None:
    told = predict(WIDE)
    assert (told.forecast.mid_us, told.forecast.high_us, told.forecast.source) == (100, 200, "history")
    assert told.run is WIDE


def test_a_limit_cuts_what_is_above_it_and_stands_in_for_what_is_not_known() -> None:
    told = predict(WIDE, limit_us=150)
    assert told.run is not None
    assert (told.forecast.mid_us, told.forecast.high_us, told.run.values) == (100, 150, (100, 150, 150))
    for run in (WIDE, certain(NOTHING_KNOWN_US, "none")):
        told = predict(run, limit_us=50)
        assert told.run is not None
        assert (told.forecast.mid_us, told.forecast.high_us, told.run.source) == (50, 50, "limit")


def test_nothing_known_is_no_forecast() -> None:
    told = predict(certain(NOTHING_KNOWN_US, "none"))
    assert told.forecast is UNKNOWN
    assert told.run is None


def test_what_is_done_already_is_taken_off() -> None:
    told = predict(WIDE, done_us=150)
    assert told.run is not None
    assert told.run.values == (1, 50, 150)
    assert told.forecast.mid_us == 1


def test_what_is_done_already_is_taken_off_the_mean_as_well() -> None:
    assert predict(replace(WIDE, mean=250.0), done_us=150).forecast.mean_us == 100
    assert predict(replace(WIDE, mean=250.0), done_us=400).forecast.mean_us == 1
    assert predict(replace(WIDE, mean=250.0)).forecast.mean_us == 250


def test_a_predictor_that_fails_keeps_nobody_out() -> None:
    assert predict(None, estimate_us=77).forecast.mid_us == 77
    assert predict(None).forecast is UNKNOWN
