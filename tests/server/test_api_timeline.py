"""API of the timeline: past, current and planned runs, visibility and bounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpusquad.model.units import US_PER_S
from gpusquad.server.schemas.timeline import TimelineView
from gpusquad.server.services.scheduler import Scheduler
from gpusquad.store import attempts, marks
from gpusquad.store.attempts import AttemptRow
from gpusquad.store.marks import MarkRow
from tests.server.rig import Rig, error_of
from tests.server.test_fuzz import real_scheduler

HOUR_US = 3600 * US_PER_S


@pytest.fixture
def rig_with_runs(rig: Rig) -> Rig:
    """A finished, a running and an old run of tenant ``a``, and a running one of ``b`` on other cards."""
    now_us = rig.clock.now_us()
    mine, theirs = rig.submit("ann", name="mine"), rig.submit("bob", name="theirs")
    row = AttemptRow(mine["id"], 0, "a", "ann", now_us - 3 * HOUR_US, None, 1000, ["node0/0"])
    rows = [
        row,
        replace(row, attempt=1, started_us=now_us - HOUR_US, gpu_milli=500),
        replace(row, attempt=2, started_us=now_us - 50 * HOUR_US),
        AttemptRow(theirs["id"], 0, "b", "bob", now_us - HOUR_US, None, 2000, ["node0/1", "node0/2"]),
    ]
    with rig.database.write() as c:
        attempts.open_all(c, rows)
        attempts.close(c, mine["id"], 0, now_us - 2 * HOUR_US, "preempted")
        attempts.close(c, mine["id"], 2, now_us - 49 * HOUR_US, "succeeded")
    rig.scheduler.move(mine["id"], "running", attempt=1)
    return rig


def timeline(rig: Rig, query: str = "", user: str = "root") -> dict[str, Any]:
    answer = rig.get(f"timeline{query}", user)
    assert answer.status_code == 200, answer.text
    TimelineView.model_validate(answer.json())
    return answer.json()


def test_timeline_has_finished_and_running_attempts(rig_with_runs: Rig) -> None:
    found = timeline(rig_with_runs)
    assert [(bar["name"], bar["attempt"], bar["state"]) for bar in found["bars"]] == [
        ("mine", 1, "running"), ("theirs", 0, "pending"), ("mine", 0, "preempted"),
    ]  # fmt: skip
    assert [bar["share_ratio"] for bar in found["bars"]] == [0.5, 1.0, 1.0]
    assert found["bars"][2]["end_s"] - found["bars"][2]["start_s"] == pytest.approx(3600)
    assert found["to_s"] - found["from_s"] == pytest.approx(36 * 3600)
    assert (found["truncated"], found["planned"], found["planned_at_s"]) == (False, [], None)


def test_bars_of_other_tenants_have_no_names(rig_with_runs: Rig) -> None:
    found = timeline(rig_with_runs, user="bob")
    assert [bar["name"] for bar in found["bars"]] == [None, "theirs", None]
    other = found["bars"][2]
    assert (other["job"], other["tenant"], other["user"], other["state"]) == (None, None, None, "over")
    assert other["cards"] == ["node0/0"]
    assert "mine" not in str(found)


def test_timeline_of_a_past_period_has_its_runs(rig_with_runs: Rig) -> None:
    now_s = rig_with_runs.clock.now_us() / US_PER_S
    found = timeline(rig_with_runs, f"?from_s={now_s - 60 * 3600}&to_s={now_s - 40 * 3600}")
    assert [bar["attempt"] for bar in found["bars"]] == [2]


def test_timeline_is_filtered_by_node_and_refuses_unknown_nodes(rig_with_runs: Rig) -> None:
    assert len(timeline(rig_with_runs, "?node=node0")["bars"]) == 3
    answer = rig_with_runs.get("timeline?node=elsewhere", "root")
    assert (answer.status_code, error_of(answer)["field"]) == (404, "node")


def test_invalid_periods_are_refused_and_bars_are_limited(rig_with_runs: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for query in ("?from_s=10&to_s=10", "?from_s=0&to_s=9999999", "?from_s=-1", "?to=1"):
        assert rig_with_runs.get(f"timeline{query}", "root").status_code == 422, query
    monkeypatch.setattr("gpusquad.server.services.queries.past_bars.bars.__defaults__", (None, 2))
    found = timeline(rig_with_runs)
    assert (len(found["bars"]), found["truncated"]) == (2, True)


def test_timeline_has_past_and_future_maintenance_windows(rig_with_runs: Rig) -> None:
    now_us = rig_with_runs.clock.now_us()
    with rig_with_runs.database.write() as c:
        marks.put(c, MarkRow("w1", "window", "node0", now_us - 2 * HOUR_US, now_us - HOUR_US, "root", "driver"))
        marks.put(c, MarkRow("w2", "window", "node0", now_us - 90 * HOUR_US, now_us - 89 * HOUR_US, "root"))
    start_s = now_us / US_PER_S + 60
    assert rig_with_runs.post("windows", "root", json={"nodes": ["node0"], "start_s": start_s}).status_code == 201
    found = timeline(rig_with_runs, "?node=node0")
    assert [window["cause"] for window in found["windows"]] == ["driver", ""]


@pytest.fixture
def planning_rig(make_rig: Callable[..., Rig]) -> Iterator[Rig]:
    """An API with two nodes of four cards and the real scheduler."""
    rig = make_rig(make_scheduler=real_scheduler)
    yield rig
    assert isinstance(rig.scheduler, Scheduler)
    rig.scheduler.close()


def test_timeline_has_predicted_ends_and_planned_starts(planning_rig: Rig) -> None:
    running = planning_rig.submit("ann", gpus=4, count=2, estimate="1h", name="whole")
    first, second = (planning_rig.submit(user, gpus=4, estimate="10m", name="next") for user in ("ann", "bob"))
    found = _until_planned(planning_rig, "ann", 2)
    [bar] = found["bars"]
    assert bar["job"] == running["id"]
    assert bar["expected"]["mid_s"] == pytest.approx(bar["start_s"] + 3600, abs=5)
    assert bar["expected"]["high_s"] >= bar["expected"]["mid_s"]
    own, other = found["planned"]
    assert (own["job"], own["position"], len(own["cards"])) == (first["id"], 1, 4)
    assert own["start_s"] == pytest.approx(bar["expected"]["mid_s"], abs=5)
    assert own["end_s"] == pytest.approx(own["start_s"] + 600, abs=1)
    assert own["start_high_s"] >= own["start_s"]
    assert (other["job"], other["name"], other["tenant"]) == (None, None, None)
    assert second["id"] not in str(found)


def _until_planned(rig: Rig, user: str, jobs: int) -> dict[str, Any]:
    for _ in range(60):
        found = timeline(rig, user=user)
        if len(found["planned"]) >= jobs and found["bars"]:
            return found
        time.sleep(0.2)
    raise AssertionError(f"no plan with {jobs} jobs: {found['planned']}")
