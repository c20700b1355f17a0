"""Every route by which a job gets a priority or a lane keeps to the rights of its user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.server.rig import JOB_FILE, Rig, error_of
from tests.server.services.world import VirtualClock, World

FILE = JOB_FILE | {"estimate": 60}
ABOVE = [{"priority": "high"}, {"priority": "urgent"}, {"lane": "large"}]


@pytest.fixture
def rig(make_rig, tmp_path: Path) -> Rig:
    """An API with the real scheduler. Its loop runs in the caller's thread."""
    return make_rig(make_scheduler=lambda database, clock: World(tmp_path, "1x2", database).scheduler)


def assert_refused(answer: Any, field: str, user: str = "ann") -> None:
    assert answer.status_code == 403, answer.text
    error = error_of(answer)
    assert (error["code"], error["field"]) == ("forbidden", field)
    assert f"gpusquad user set {user} --" in error["cure"]


@pytest.mark.parametrize("wish", ABOVE, ids=str)
@pytest.mark.parametrize("path", ["jobs", "whatif"])
def test_job_file_above_the_right_is_refused(rig: Rig, path: str, wish: dict) -> None:
    (field,) = wish
    assert_refused(rig.post(path, json={"file": FILE | wish}), field)
    filled = FILE | {field: "${x}", "params": {"x": "low"}}
    assert_refused(rig.post(path, json={"file": filled, "params": {"x": wish[field]}}), field)
    swept = FILE | {field: "${x}", "sweep": {"x": ["normal", wish[field]]}} if field == "priority" else FILE | wish
    if path == "jobs":
        assert_refused(rig.post(path, json={"file": swept}), field)
    assert rig.get("jobs", "root").json()["items"] == []
    assert rig.post(path, "root", json={"file": FILE | wish}).status_code in (200, 201)


@pytest.mark.parametrize("wish", ABOVE, ids=str)
def test_change_above_the_right_is_refused(rig: Rig, wish: dict) -> None:
    job = rig.submit(estimate=60)["id"]
    (field,) = wish
    assert_refused(rig.call("PATCH", f"jobs/{job}", json=wish), field)
    assert rig.get(f"jobs/{job}").json()[field] in ("normal", "")
    assert rig.call("PATCH", f"jobs/{job}", "root", json=wish).json()[field] == wish[field]
    assert rig.call("PATCH", f"jobs/{job}", json=wish | {"name": "same"}).status_code == 200


def test_resubmission_above_the_right_is_refused(rig: Rig) -> None:
    rig.call("PATCH", "users/ann", "root", json={"max_priority": "urgent"})
    job = rig.submit(priority="urgent", estimate=60)["id"]
    assert rig.post(f"jobs/{job}/resubmit").status_code == 201
    rig.call("PATCH", "users/ann", "root", json={"max_priority": None})
    assert_refused(rig.post(f"jobs/{job}/resubmit"), "priority")


def test_integers_are_priorities_everywhere(rig: Rig) -> None:
    for asked in (1, "1", 2**31 - 1):
        assert_refused(rig.post("jobs", json={"file": FILE | {"priority": asked}}), "priority")
    assert rig.call("PUT", "tenants/a", "root", json={"max_priority": 70}).json()["max_priority"] == "70"
    assert rig.get("me").json()["max_priority"] == "70"
    job = rig.submit(priority=70, estimate=60)
    assert rig.get(f"jobs/{job['id']}").json()["priority"] == "70"
    assert_refused(rig.call("PATCH", f"jobs/{job['id']}", json={"priority": 71}), "priority")
    assert rig.call("PATCH", f"jobs/{job['id']}", json={"priority": "-1000"}).json()["priority"] == "low"


def test_grants_to_a_tenant_and_to_a_user_apply_at_once(rig: Rig) -> None:
    urgent = {"file": FILE | {"priority": "urgent", "lane": "large"}}
    assert rig.call("PUT", "tenants/a", "root", json={"max_priority": "urgent", "may_choose_lane": True}).is_success
    assert rig.post("jobs", json=urgent).status_code == 201
    assert rig.call("PATCH", "users/ann", "root", json={"max_priority": "high"}).json()["max_priority"] == "high"
    assert_refused(rig.post("jobs", json=urgent), "priority")
    assert rig.call("PATCH", "users/ann", "root", json={"max_priority": None, "may_choose_lane": False}).is_success
    assert_refused(rig.post("jobs", json=urgent), "lane")
    assert rig.call("PATCH", "users/ann", "root", json={"may_choose_lane": None}).json()["may_choose_lane"] is None
    assert rig.post("jobs", json=urgent).status_code == 201
    assert rig.post("jobs", "bob", json=urgent).status_code == 403


def test_spent_budget_refuses_every_way_to_a_priority_above_high(make_rig, tmp_path: Path) -> None:
    clock = VirtualClock(10**12)
    rig: Rig = make_rig(
        make_scheduler=lambda database, clock: World(tmp_path, "1x2", database, clock=clock).scheduler, clock=clock
    )
    rig.call("PUT", "tenants/a", "root", json={"max_priority": "urgent", "urgent_gpu_hours": 4})
    running = rig.submit(gpus=2, priority="urgent", estimate=10**6)["id"]
    pending = rig.submit(estimate=60)["id"]
    rig.call("PATCH", f"jobs/{pending}", json={"name": "pending"})  # runs a pass
    clock.at_us += 2 * 3600 * 10**6

    def assert_over(answer: Any) -> None:
        assert answer.status_code == 403, answer.text
        error = error_of(answer)
        assert (error["code"], error["field"]) == ("forbidden", "priority")
        assert "tenant a has used 4.0 of its 4 urgent GPU-hours" in error["message"]
        assert "gpusquad tenant set a --urgent-hours N" in error["cure"]

    urgent = FILE | {"priority": "urgent"}
    for path in ("jobs", "whatif"):
        assert_over(rig.post(path, json={"file": urgent}))
        assert rig.post(path, "root", json={"file": urgent | {"tenant": "a"}}).is_success
    assert_over(rig.post("jobs", json={"file": FILE | {"priority": "${x}", "sweep": {"x": ["low", "urgent"]}}}))
    assert_over(rig.call("PATCH", f"jobs/{pending}", json={"priority": "1001"}))
    assert_over(rig.post(f"jobs/{running}/resubmit"))
    assert rig.post("jobs", json={"file": FILE | {"priority": "high"}}).status_code == 201
    rig.call("PUT", "tenants/a", "root", json={"max_priority": "urgent", "urgent_gpu_hours": 5})
    assert rig.post(f"jobs/{running}/resubmit").status_code == 201


def test_budget_and_its_use_are_shown(make_rig, tmp_path: Path) -> None:
    clock = VirtualClock(10**12)
    rig: Rig = make_rig(
        make_scheduler=lambda database, clock: World(tmp_path, "1x2", database, clock=clock).scheduler, clock=clock
    )

    def shown(answer: dict[str, Any]) -> tuple:
        return answer["urgent_gpu_hours"], answer["urgent_gpu_hours_used"]

    set_budget = rig.call("PUT", "tenants/a", "root", json={"max_priority": "urgent", "urgent_gpu_hours": 2.5})
    assert shown(set_budget.json()) == (2.5, 0.0)
    assert shown(rig.post("tenants", "root", json={"name": "c"}).json()) == (None, 0.0)
    job = rig.submit(priority="urgent", estimate=10**6)["id"]
    rig.call("PATCH", f"jobs/{job}", json={"name": "job"})  # runs a pass
    clock.at_us += 3600 * 10**6
    (tenant,) = rig.get("tenants").json()["items"]
    assert shown(tenant) == (2.5, pytest.approx(1.0))
    by_name = {tenant["name"]: shown(tenant) for tenant in rig.get("tenants", "root").json()["items"]}
    assert by_name == {"a": (2.5, pytest.approx(1.0)), "b": (None, 0.0), "c": (None, 0.0), "default": (None, 0.0)}
    for value in (-1, 1e10, "many"):
        assert rig.call("PUT", "tenants/a", "root", json={"urgent_gpu_hours": value}).status_code == 422
    assert rig.call("PUT", "tenants/a", json={"urgent_gpu_hours": 5}).status_code == 403


def test_why_names_who_passed_by_which_right(rig: Rig) -> None:
    rig.call("PUT", "tenants/b", "root", json={"max_priority": "urgent"})
    running = rig.submit(gpus=2, estimate=600)["id"]
    rig.call("PATCH", f"jobs/{running}", json={"name": "running"})  # runs a pass
    head = rig.submit(gpus=2, estimate=60)["id"]
    assert rig.get(f"jobs/{head}/why").json()["passed"] == []
    urgent = {"file": FILE | {"gpus": 2, "priority": "urgent", "estimate": 60}}
    first = rig.post("jobs", "bob", json=urgent).json()["jobs"][0]["id"]
    second = rig.post("jobs", "root", json={"file": urgent["file"] | {"tenant": "a"}}).json()["jobs"][0]["id"]
    rig.submit(gpus=2, estimate=60, name="behind")
    rig.call("PATCH", f"jobs/{head}", json={"name": "head"})
    passed = rig.get(f"jobs/{head}/why").json()["passed"]
    assert [(one["job"], one["user"], one["running"], one["by"], one["value"]) for one in passed] == [
        (first, "bob", False, "priority", "urgent"), (second, "root", False, "priority", "urgent"),
    ]  # fmt: skip
    assert passed[0]["message"] == (
        f"{first} of bob (tenant b), submitted later, is ahead by priority urgent, "
        "granted to tenant b by an administrator"
    )
    assert passed[1]["granted"] == "set by an administrator or by a PriorityClass"
    assert rig.get(f"jobs/{first}/why", "bob").json()["passed"] == []


def test_rights_are_shown(rig: Rig) -> None:
    def own(user: str) -> tuple:
        me = rig.get("me", user).json()
        return me["max_priority"], me["may_choose_lane"]

    assert (own("ann"), own("root")) == (("normal", False), (None, True))
    rig.call("PUT", "tenants/a", "root", json={"max_priority": "high", "may_choose_lane": True})
    assert own("ann") == ("high", True)
    (tenant,) = rig.get("tenants").json()["items"]
    assert (tenant["max_priority"], tenant["may_choose_lane"]) == ("high", True)
    made = rig.post("users", "root", json={"name": "new", "tenant": "a", "max_priority": "urgent"}).json()
    assert (made["max_priority"], made["may_choose_lane"]) == ("urgent", None)
    assert {row["name"]: row["max_priority"] for row in rig.get("users").json()["items"]}["new"] == "urgent"


@pytest.mark.parametrize("user", ["ann", "vic"])
def test_rights_are_granted_by_administrators_only(rig: Rig, user: str) -> None:
    wish = {"max_priority": "urgent"}
    assert rig.call("PATCH", f"users/{user}", user, json=wish).status_code == 403
    assert rig.call("PUT", "tenants/a", user, json=wish).status_code == 403
    assert rig.post("users", user, json={"name": "x", "tenant": "a"} | wish).status_code == 403


@pytest.mark.parametrize("value", ["very", "", 3.5, True, 2**31, ["high"]])
def test_unknown_classes_are_refused(rig: Rig, value: Any) -> None:
    assert rig.call("PUT", "tenants/a", "root", json={"max_priority": value}).status_code == 422
    assert rig.call("PATCH", "users/ann", "root", json={"max_priority": value}).status_code == 422


def test_token_of_an_administrator_without_the_scope_admin_has_no_more_rights(rig: Rig) -> None:
    token = rig.token("root", ["read", "submit"])
    assert_refused(rig.post("jobs", token=token, json={"file": FILE | {"priority": "urgent"}}), "priority", "root")


def test_job_in_another_tenant_gains_no_rights(rig: Rig) -> None:
    rig.call("PUT", "tenants/b", "root", json={"max_priority": "urgent"})
    answer = rig.post("jobs", json={"file": FILE | {"priority": "urgent", "tenant": "b"}})
    assert answer.status_code == 403
