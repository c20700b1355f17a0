"""The P90 of forecast starts, learned from forecasts and starts."""

from __future__ import annotations

from random import Random

import pytest

from gpusquad.predict.start_calibration import LEAST, PER_TENANT, FirstForecast, StartCalibration, StartRange

MIN_US = 60_000_000
HOUR_US = 60 * MIN_US


class Record:
    """A calibration with forecasts as (tenant, made, forecast wait, actual wait)."""

    def __init__(self) -> None:
        self.calibration = StartCalibration()
        self.count = 0

    def add(self, made_us: int, forecast_min: float, waited_min: float | None, tenant: str = "a",
            user: str = "u") -> str:  # fmt: skip
        """``waited_min`` None: the job still waits."""
        self.count += 1
        job_id = f"j{self.count}"
        self.calibration.made(job_id, FirstForecast(tenant, user, made_us, made_us + round(forecast_min * MIN_US)))
        if waited_min is not None:
            self.calibration.settle(job_id, made_us + round(waited_min * MIN_US))
        return job_id

    def p90_min(self, forecast_min: float, tenant: str = "a", now_us: int = 1000 * HOUR_US) -> float | None:
        found = self.calibration.at(now_us).high_us(tenant, now_us, now_us + round(forecast_min * MIN_US))
        return None if found is None else (found - now_us) / MIN_US


def filled(count: int, tenant: str = "a", waited_min: float = 60, from_hour: int = 0) -> Record:
    """Forecasts of half an hour at different hours."""
    record = Record()
    for number in range(count):
        record.add((from_hour + number) * HOUR_US, 30, waited_min, tenant)
    return record


def test_few_settled_forecasts_say_nothing() -> None:
    record = filled(LEAST - 1)
    record.add(0, 30, None)
    assert record.p90_min(30) is None
    record.add(0, 30, 60)
    assert record.p90_min(30) == pytest.approx(60, rel=0.01)
    assert StartRange().high_us("a", 0, 1) is None


def test_nine_of_ten_starts_are_within_the_p90_at_every_wait() -> None:
    random, record = Random(1), Record()

    def draw() -> tuple[float, float]:
        forecast_min = random.choice((0.5, 5, 30, 120, 600))
        spread = 1.2 if forecast_min < 10 else 0.4
        return forecast_min, forecast_min * random.lognormvariate(0, spread)

    for number in range(PER_TENANT):
        record.add(number * HOUR_US, *draw())
    for wait_min in (5, 30, 120, 600):
        waits = [waited for forecast, waited in (draw() for _ in range(4000)) if forecast == wait_min]
        high = record.p90_min(wait_min)
        assert high is not None
        covered = sum(waited <= high for waited in waits) / len(waits)
        assert 0.82 < covered < 0.98, (wait_min, covered)


def test_p90_is_never_before_the_forecast() -> None:
    record = filled(50, waited_min=1)
    assert record.p90_min(30) == 30
    assert record.p90_min(0) == 0


def test_jobs_that_still_wait_count_as_long_waits() -> None:
    record = filled(60, waited_min=30)
    on_time = record.p90_min(30)
    for number in range(30):
        record.add((1000 - 10 - number) * HOUR_US, 30, None)
    later = record.p90_min(30)
    assert on_time == pytest.approx(30, abs=1)
    assert later is not None
    assert later > 600


def test_jobs_that_have_just_begun_to_wait_say_nothing() -> None:
    record = filled(50, waited_min=30)
    for number in range(10):
        record.add((60 + number) * HOUR_US, 30, 45)
    before = record.p90_min(30)
    for number in range(60):
        record.add(1000 * HOUR_US, 30, None, user=f"u{number}")
    assert before == pytest.approx(45, rel=0.01)
    assert record.p90_min(30) == before


def test_jobs_of_one_sweep_count_as_one() -> None:
    for usual_min, of_sweep_min in ((90, 30), (30, 90)):
        record = filled(40, waited_min=usual_min)
        for number in range(450):
            record.add(50 * HOUR_US + number, 30, of_sweep_min)
        assert record.p90_min(30) == pytest.approx(usual_min, rel=0.01)


def test_similar_waits_decide() -> None:
    record = Record()
    for number in range(100):
        record.add(2 * number * HOUR_US, 5, 50)
        record.add((2 * number + 1) * HOUR_US, 600, 660)
    assert record.p90_min(5) == pytest.approx(50, rel=0.1)
    assert record.p90_min(600) == pytest.approx(660, rel=0.1)


def test_a_tenant_with_enough_forecasts_is_judged_by_its_own() -> None:
    record = filled(100, waited_min=60)
    for number in range(400):
        record.add(number * HOUR_US, 30, 5000, "evil", f"mal{number}")
    assert record.p90_min(30) == pytest.approx(60, rel=0.01)
    new = record.p90_min(30, "new")
    assert new is not None
    assert new > 60, "a tenant without a record is judged by all"


def test_no_tenant_decides_for_the_others() -> None:
    """One tenant's starts are always on time. A new tenant still sees how late those of the other four are."""
    record = Record()
    for number in range(20):
        for tenant in "bcde":
            record.add(number * HOUR_US, 30, 60 + number, tenant)
    honest = record.p90_min(30, "new")
    for number in range(PER_TENANT):
        record.add(number * HOUR_US, 30, 1, "evil", f"mal{number}")
    bounded = record.p90_min(30, "new")
    assert honest is not None
    assert bounded is not None
    assert 70 < bounded <= honest


def test_no_user_decides_for_the_tenant() -> None:
    record = Record()
    for number in range(10):
        for user in "bcde":
            record.add(number * HOUR_US, 30, 60 + number, user=user)
    for number in range(PER_TENANT - 40):
        record.add(number * HOUR_US, 30, 1, user="mal")
    high = record.p90_min(30)
    assert high is not None
    assert high > 60


def test_latest_forecasts_count() -> None:
    record = filled(PER_TENANT, waited_min=600)
    for number in range(PER_TENANT):
        record.add((600 + number) * HOUR_US, 30, 40)
    assert record.p90_min(30, now_us=2000 * HOUR_US) == pytest.approx(40, rel=0.01)


def test_first_forecast_and_first_start_count_and_a_cancelled_job_does_not() -> None:
    record = filled(30, waited_min=60)
    waits = record.add(500 * HOUR_US, 30, None)
    record.calibration.made(waits, FirstForecast("a", "u", 501 * HOUR_US, 502 * HOUR_US))
    assert record.calibration.open == {waits}
    record.calibration.forget(waits)
    record.calibration.settle(waits, 900 * HOUR_US)
    assert not record.calibration.open
    assert record.p90_min(30) == pytest.approx(60, rel=0.01)


def test_what_was_known_does_not_change() -> None:
    record = filled(30, waited_min=60)
    known = record.calibration.at(0)
    for number in range(300):
        record.add(number * HOUR_US, 30, 600)
    high_us = known.high_us("a", 0, 30 * MIN_US)
    assert high_us == pytest.approx(60 * MIN_US, rel=0.01)
