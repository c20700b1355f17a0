"""API of goals: SLOs and their attainment."""

from __future__ import annotations

from typing import Any

import pytest

from gpusquad.model.units import US_PER_S
from gpusquad.server.schemas.goals import GoalsView
from gpusquad.server.services.sharing.slo_recorder import GoalRecord
from gpusquad.store import jobs, people
from gpusquad.store.people import TenantRow
from tests.server.fake_divides import FakeDivides, tenant
from tests.server.rig import Rig

HOUR_US = 3600 * US_PER_S


def goals(rig: Rig, user: str = "root", hours: int = 24) -> dict[str, Any]:
    answer = rig.get(f"goals?hours={hours}", user)
    assert answer.status_code == 200, answer.text
    GoalsView.model_validate(answer.json())
    return answer.json()


def add_ended_job(rig: Rig, user: str, state: str, after_s: float, **file: Any) -> str:
    """Add a job that was submitted two hours ago and ended `after_s` later."""
    job_id = rig.submit(user, **file)["id"]
    submitted_us = rig.clock.now_us() - 2 * HOUR_US
    with rig.database.write() as c:
        jobs.change(
            c, job_id, state=state, submitted_us=submitted_us, ended_us=submitted_us + round(after_s * US_PER_S)
        )
    return job_id


def test_goals_are_empty_without_slos(rig: Rig) -> None:
    rig.submit("ann")
    found = goals(rig)
    assert (found["jobs"], found["tenants"], found["deadlines"], found["attainment"]) == ([], [], [], [])


def test_deadlines_are_counted_from_stored_ends(rig: Rig) -> None:
    with rig.database.write() as c:
        people.put_tenant(c, TenantRow("a", weight=3.0))
    for state, after_s in (("succeeded", 600), ("succeeded", 5000), ("failed", 600)):
        add_ended_job(rig, "ann", state, after_s, slo={"deadline": "1h"})
    rig.submit("ann", slo={"deadline": "1h"})
    rig.submit("bob", slo={"deadline": "1h"})
    found = goals(rig, "ann")
    [line] = found["tenants"]
    assert (line["tenant"], line["weight"], line["jobs"]) == ("a", 3.0, 4)
    assert (line["deadlines_met"], line["deadlines_missed"]) == (1, 2)
    assert line["deadline_ratio"] == pytest.approx(1 / 3)
    assert sum(point["met"] for point in found["deadlines"]) == 1
    assert sum(point["missed"] for point in found["deadlines"]) == 2
    assert sorted(str(job["deadline_met"]) for job in found["jobs"]) == ["False", "False", "None", "True"]
    assert [line["tenant"] for line in goals(rig, "root")["tenants"]] == ["a", "b"]
    assert goals(rig, "ann", hours=1)["tenants"][0]["jobs"] == 2, "jobs that ended earlier are left out"


def test_attainment_is_read_from_the_card_daemons(rig: Rig) -> None:
    mine = rig.submit("ann", name="serve", slo={"p99": "20ms"})["id"]
    theirs = rig.submit("bob", slo={"throughput": 5})["id"]
    for job_id in (mine, theirs):
        rig.scheduler.move(job_id, "running")
    assert isinstance(rig.divides, FakeDivides)
    rig.divides.start("node0/0", "slo", tenant(f"{mine}.0", attainment=0.8, weight=2.5))
    rig.divides.start("node0/1", "slo", tenant(f"{theirs}.0", attainment=0.1))
    found = goals(rig, "ann")
    [job] = found["jobs"]
    assert (job["job"], job["attainment_ratio"], job["weight"]) == (mine, 0.8, 2.5)
    assert job["goal"]["latency_s"] == pytest.approx(0.02)
    assert found["tenants"][0]["attainment_ratio"] == pytest.approx(0.8)
    assert [(point["job"], point["attainment_ratio"]) for point in found["attainment"]] == [(mine, 0.8)]
    assert {point["job"] for point in goals(rig, "root")["attainment"]} == {mine, theirs}


def slo_of(rig: Rig, job_id: str) -> tuple[bool | None, float | None, bool]:
    slo = rig.get(f"jobs/{job_id}", "ann").json()["slo"]
    return slo["deadline_met"], slo["attainment_ratio"], slo["unknown"]


def test_job_has_the_state_of_its_slo_that_the_goals_have(rig: Rig) -> None:
    late = add_ended_job(rig, "ann", "succeeded", 5000, slo={"deadline": "1h"})
    early = add_ended_job(rig, "ann", "succeeded", 600, slo={"deadline": "1h", "p99": "20ms"})
    waiting = rig.submit("ann", slo={"deadline": "1h", "p99": "20ms"})["id"]
    silent = rig.submit("ann", slo={"p99": "20ms"})["id"]
    served = rig.submit("ann", slo={"p99": "20ms"})["id"]
    for job_id in (silent, served):
        rig.scheduler.move(job_id, "running")
    assert isinstance(rig.divides, FakeDivides)
    rig.divides.start("node0/1", "slo", tenant(f"{served}.0", attainment=0.5))
    expected = {
        late: (False, None, False), early: (True, None, False), waiting: (None, None, False),
        silent: (None, None, True), served: (None, 0.5, False),
    }  # fmt: skip
    assert {job_id: slo_of(rig, job_id) for job_id in expected} == expected
    same = {job["job"]: (job["deadline_met"], job["attainment_ratio"]) for job in goals(rig, "ann")["jobs"]}
    assert same == {job_id: state[:2] for job_id, state in expected.items()}
    assert {job_id: slo_of(rig, job_id) for job_id in expected} == expected, "also from the snapshot of the goals"


def test_attainment_that_nobody_reports_is_unknown_and_counts_as_nothing(rig: Rig) -> None:
    silent = rig.submit("ann", name="silent", slo={"p99": "26ms"})["id"]
    bad = rig.submit("ann", name="bad", slo={"p99": "26ms"})["id"]
    batch = rig.submit("ann", name="batch", slo={"deadline": "2h"})["id"]
    for job_id in (silent, bad, batch):
        rig.scheduler.move(job_id, "running")
    assert isinstance(rig.divides, FakeDivides)
    rig.divides.start("node0/0", "slo", tenant(f"{silent}.0", attainment=None))
    rig.divides.start("node0/1", "slo", tenant(f"{bad}.0", attainment=0.5))
    found = goals(rig, "ann")
    assert {job["job"]: job["attainment_ratio"] for job in found["jobs"]} == {silent: None, bad: 0.5, batch: None}
    assert (found["tenants"][0]["attainment_ratio"], found["tenants"][0]["unknown"]) == (0.5, 1)


def test_goals_list_the_policies_of_the_period(rig: Rig) -> None:
    assert rig.call("PUT", "policy", "root", json={"mode": "slo"}).status_code == 200
    assert [point["mode"] for point in goals(rig)["policies"]] == ["slo"]


@pytest.mark.parametrize("query", ["hours=0", "hours=745", "days=1"])
def test_invalid_periods_are_refused(rig: Rig, query: str) -> None:
    assert rig.get(f"goals?{query}", "root").status_code == 422


def test_recorded_attainment_is_listed(rig: Rig) -> None:
    mine = rig.submit("ann", name="serve", slo={"p99": "20ms"})["id"]
    assert isinstance(rig.divides, FakeDivides)
    times = iter(range(rig.clock.now_us() - 10 * HOUR_US, rig.clock.now_us(), HOUR_US))
    now_us = [next(times)]
    record = GoalRecord(rig.database, rig.services.divides, rig.scheduler.cards, lambda: now_us[0])
    assert record.record() == 0, "the job is not running yet"
    rig.scheduler.move(mine, "running")
    for attainment in (0.5, 0.75):
        rig.divides.start("node0/0", "slo", tenant(f"{mine}.0", attainment=attainment, weight=2.0))
        assert record.record() == 1
        now_us[0] = next(times)
    points = [(point["attainment_ratio"], point["weight"]) for point in goals(rig, "ann")["attainment"]]
    assert points[:2] == [(0.5, 2.0), (0.75, 2.0)]
    assert goals(rig, "bob")["attainment"] == []
