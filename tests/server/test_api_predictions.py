"""API of prediction accuracy: visibility and form."""

from __future__ import annotations

import pytest

from gpusquad.model.prediction import LEVELS
from gpusquad.model.units import US_PER_S
from gpusquad.server.schemas.jobs import JobDetail, WhenView
from gpusquad.server.schemas.predictions import PredictionsView
from gpusquad.store import jobs, run_forecasts
from gpusquad.store.run_forecasts import RunForecastRow
from tests.server.rig import Rig

DAY_US = 86_400 * US_PER_S


@pytest.fixture
def rig_with_runs(rig: Rig) -> Rig:
    """Ten runs of tenant ``a``, four of ``b`` and one old run, each predicted as one minute."""
    now_us = rig.clock.now_us()
    rows = [row(n, "a" if n < 10 else "b", now_us - n) for n in range(14)] + [row(99, "a", now_us - 40 * DAY_US)]
    with rig.database.write() as c:
        run_forecasts.add(c, rows)
    return rig


def row(number: int, tenant: str, settled_us: int) -> RunForecastRow:
    values = [round(120 * level) * US_PER_S for level in LEVELS]
    return RunForecastRow(
        f"job{number}", 0, 1, tenant, "u", "history", 0.5, None, (50 + number) * US_PER_S,
        "cancelled" if number == 0 else "succeeded", settled_us, levels=list(LEVELS), values_us=values,
    )  # fmt: skip


def test_administrator_sees_all_tenants_and_member_the_own_one(rig_with_runs: Rig) -> None:
    all_tenants = rig_with_runs.get("predictions", "root").json()
    PredictionsView.model_validate(all_tenants)
    assert [(line["key"], line["count"], line["cut"]) for line in all_tenants["tenants"]] == [("a", 9, 1), ("b", 4, 0)]
    assert (all_tenants["count"], all_tenants["points"]) == (14, [])
    assert all_tenants["sources"][0]["median_ratio"] == pytest.approx(3 / 57)
    mine = rig_with_runs.get("predictions", "bob").json()
    assert [line["key"] for line in mine["tenants"]] == ["b"]
    assert mine["count"] == 4
    assert rig_with_runs.get("predictions?tenant=a", "bob").status_code == 403
    assert rig_with_runs.get("predictions?tenant=a", "root").json()["count"] == 10


def test_since_and_points_limit_the_runs(rig_with_runs: Rig) -> None:
    assert rig_with_runs.get("predictions?since_s=0", "root").json()["count"] == 15
    answer = rig_with_runs.get("predictions?points=5", "root").json()
    PredictionsView.model_validate(answer)
    assert len(answer["points"]) == 5
    assert {point["predicted_s"] for point in answer["points"]} == {60.0}
    assert [point["level"] for point in answer["calibration"]] == list(LEVELS)
    assert rig_with_runs.get("predictions?points=99999", "root").status_code == 422


def test_predictions_are_empty_without_runs(rig: Rig) -> None:
    answer = rig.get("predictions", "root").json()
    PredictionsView.model_validate(answer)
    assert (answer["count"], answer["tenants"], answer["calibration"]) == (0, [], [])


def test_job_has_its_prediction_and_the_accuracy_of_past_ones(rig_with_runs: Rig) -> None:
    job = rig_with_runs.submit("ann")
    forecast = {"mid_us": 60 * US_PER_S, "high_us": 108 * US_PER_S, "source": "history", "confidence": 0.5}
    with rig_with_runs.database.write() as c:
        jobs.change(c, job["id"], forecast=forecast)
    view = rig_with_runs.get(f"jobs/{job['id']}", "ann").json()
    JobDetail.model_validate(view)
    assert view["forecast"] == {"mid_s": 60.0, "high_s": 108.0, "source": "history", "confidence": 0.5}
    assert view["run_record"]["count"] == 10  # the last 90 days, without the cancelled run
    assert view["run_record"]["within_ratio"] == pytest.approx(0.9)
    when = rig_with_runs.get(f"jobs/{job['id']}/when", "ann").json()
    WhenView.model_validate(when)
    assert when["run"]["confidence"] == 0.5


def test_name_that_no_tenant_has_is_refused(rig: Rig) -> None:
    assert rig.get("predictions?tenant=a", "root").status_code == 200
    answer = rig.get("predictions?tenant=nope", "root")
    assert answer.status_code == 404
    assert "there is no tenant 'nope'" in answer.text
