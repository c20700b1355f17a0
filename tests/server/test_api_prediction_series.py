"""API of the prediction series: predicted and actual run times over time."""

from __future__ import annotations

from typing import Any

import pytest

from gpusquad.model.prediction import LEVELS
from gpusquad.model.units import US_PER_S
from gpusquad.server.schemas.prediction_series import PredictionSeriesView
from gpusquad.store import run_forecasts
from gpusquad.store.run_forecasts import RunForecastRow
from tests.server.rig import Rig

DAY_US = 86_400 * US_PER_S


@pytest.fixture
def rig_with_runs(rig: Rig) -> Rig:
    """One run per day and tenant, with another prediction source during the last ten days."""
    now_us = rig.clock.now_us()
    rows = [
        row(f"{tenant}{day}", tenant, "user" if day > 10 else "history", now_us - day * DAY_US - 1, day)
        for day in range(20)
        for tenant in "ab"
    ]
    with rig.database.write() as c:
        run_forecasts.add(c, rows)
    return rig


def row(job: str, tenant: str, source: str, settled_us: int, day: int) -> RunForecastRow:
    values = [round(120 * level) * US_PER_S for level in LEVELS]
    how = "cancelled" if day == 0 else "succeeded"
    return RunForecastRow(job, 0, 1, tenant, "u", source, 0.5, None, 50 * US_PER_S, how, settled_us,
                          levels=list(LEVELS), values_us=values)  # fmt: skip


def series(rig: Rig, query: str = "", user: str = "root") -> dict[str, Any]:
    answer = rig.get(f"predictions/series{query}", user)
    assert answer.status_code == 200, answer.text
    PredictionSeriesView.model_validate(answer.json())
    return answer.json()


def test_lines_are_grouped_by_tenant_and_source(rig_with_runs: Rig) -> None:
    found = series(rig_with_runs)
    found_rows = [(line["tenant"], line["source"], line["count"], line["cut"]) for line in found["lines"]]
    assert found_rows == [("a", "history", 10, 1), ("b", "history", 10, 1), ("a", "user", 9, 0), ("b", "user", 9, 0)]
    assert found["lines"][0]["median_ratio"] == pytest.approx(0.2)
    assert (found["count"], found["truncated"], found["points"]) == (40, False, [])


def test_series_is_split_into_spans(rig_with_runs: Rig) -> None:
    found = series(rig_with_runs, "?spans=3")
    found_rows = [(point["source"], point["count"]) for point in found["series"]]
    assert found_rows == [("history", 2), ("user", 18), ("history", 18)]
    assert [point["at_s"] for point in found["series"]] == sorted(point["at_s"] for point in found["series"])
    assert found["span_s"] == pytest.approx(10 * 86_400, rel=1e-6)


def test_points_are_spread_over_the_period(rig_with_runs: Rig) -> None:
    found = series(rig_with_runs, "?points=10&tenant=a")
    assert len(found["points"]) == 10
    assert [point["ended_s"] for point in found["points"]] == sorted(point["ended_s"] for point in found["points"])
    first = found["points"][0]
    assert (first["tenant"], first["source"], first["predicted_s"], first["truth_s"]) == ("a", "user", 60.0, 50.0)
    assert first["high_s"] == 108.0
    assert len(series(rig_with_runs, "?points=2000")["points"]) == 38


def test_member_sees_only_the_own_tenant(rig_with_runs: Rig) -> None:
    assert {line["tenant"] for line in series(rig_with_runs, user="bob")["lines"]} == {"b"}
    assert rig_with_runs.get("predictions/series?tenant=a", "bob").status_code == 403
    assert [line["source"] for line in series(rig_with_runs, "?source=user", "bob")["lines"]] == ["user"]


@pytest.mark.parametrize("query", ["points=2001", "spans=0", "spans=201", "since_s=9999999999"])
def test_invalid_parameters_are_refused(rig_with_runs: Rig, query: str) -> None:
    assert rig_with_runs.get(f"predictions/series?{query}", "root").status_code == 422


def test_series_is_empty_without_runs(rig: Rig) -> None:
    found = series(rig, "?points=5")
    assert (found["lines"], found["series"], found["points"]) == ([], [], [])
