"""Predictions against the truth over time, over the API."""

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
def told(rig: Rig) -> Rig:
    """Every day one run of each tenant, of one source until ten days ago and of another since."""
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


def test_by_tenant_and_source(told: Rig) -> None:
    found = series(told)
    told_of = [(line["tenant"], line["source"], line["count"], line["cut"]) for line in found["lines"]]
    assert told_of == [("a", "history", 10, 1), ("b", "history", 10, 1), ("a", "user", 9, 0), ("b", "user", 9, 0)]
    assert found["lines"][0]["median_ratio"] == pytest.approx(0.2)
    assert (found["count"], found["truncated"], found["points"]) == (40, False, [])


def test_over_time(told: Rig) -> None:
    found = series(told, "?spans=3")
    told_of = [(point["source"], point["count"]) for point in found["series"]]
    assert told_of == [("history", 2), ("user", 18), ("history", 18)]
    assert [point["at_s"] for point in found["series"]] == sorted(point["at_s"] for point in found["series"])
    assert found["span_s"] == pytest.approx(10 * 86_400, rel=1e-6)


def test_points_are_spread_over_the_time(told: Rig) -> None:
    found = series(told, "?points=10&tenant=a")
    assert len(found["points"]) == 10
    assert [point["ended_s"] for point in found["points"]] == sorted(point["ended_s"] for point in found["points"])
    first = found["points"][0]
    assert (first["tenant"], first["source"], first["predicted_s"], first["truth_s"]) == ("a", "user", 60.0, 50.0)
    assert first["high_s"] == 108.0
    assert len(series(told, "?points=2000")["points"]) == 38


def test_a_member_sees_the_own_tenant(told: Rig) -> None:
    assert {line["tenant"] for line in series(told, user="bob")["lines"]} == {"b"}
    assert told.get("predictions/series?tenant=a", "bob").status_code == 403
    assert [line["source"] for line in series(told, "?source=user", "bob")["lines"]] == ["user"]


@pytest.mark.parametrize("query", ["points=2001", "spans=0", "spans=201", "since_s=9999999999"])
def test_bounds(told: Rig, query: str) -> None:
    assert told.get(f"predictions/series?{query}", "root").status_code == 422


def test_nothing_yet(rig: Rig) -> None:
    found = series(rig, "?points=5")
    assert (found["lines"], found["series"], found["points"]) == ([], [], [])
