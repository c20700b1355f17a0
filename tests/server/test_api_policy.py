"""Lane and preemption rules: shown to everybody, changed by administrators as revisions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server.rig import JOB_FILE, Rig, error_of
from tests.server.services.world import World

LARGE = {"name": "large", "min_gpus": 2, "preemptible": False}
NIGHT = {"name": "night", "priorities": ["low", -5], "limit_ratio": 0.5}
REST = {"name": "rest", "tenants": ["b"]}


@pytest.fixture
def rig(make_rig: Callable[..., Rig], tmp_path: Path) -> Rig:
    return make_rig(make_scheduler=lambda database, clock: World(tmp_path, "1x2", database).scheduler)


def put(rig: Rig, settings: dict[str, Any], user: str = "root") -> Any:
    return rig.call("PUT", "policy", user, json=settings)


def test_rules_of_the_mode_are_shown(rig: Rig) -> None:
    shown = rig.get("policy").json()
    assert [(lane["name"], lane["min_gpus"], lane["preemptible"]) for lane in shown["lanes"]] == [
        ("large", 8, True), ("small", 0, True),
    ]  # fmt: skip
    assert shown["preemption"] == {"by": "priority", "min_run_s": 60.0, "most_per_job": 3, "overstay": "checkpointed"}


def test_lanes_are_replaced_and_apply_at_once(rig: Rig) -> None:
    job = rig.submit(gpus=2, estimate=60)["id"]
    answer = put(rig, {"lanes": [LARGE, NIGHT, REST], "note": "nights"}).json()
    assert [lane["name"] for lane in answer["lanes"]] == ["large", "night", "rest"]
    assert answer["lanes"][1] == {
        "name": "night", "min_gpus": 0, "max_gpus": None, "tenants": [], "priorities": ["low", "-5"],
        "preemptible": True, "max_lost_s": None, "limit_ratio": 0.5,
    }  # fmt: skip
    assert (answer["revision"], answer["note"]) == (1, "nights")
    assert rig.get("policy", "root").json()["lanes"] == answer["lanes"]
    assert rig.get("policy/revisions").json()["items"][0]["settings"]["lanes"][0]["name"] == "large"
    assert rig.get(f"jobs/{job}").is_success
    assert rig.post("jobs", "root", json={"file": JOB_FILE | {"lane": "small"}}).status_code == 422
    assert rig.post("jobs", "root", json={"file": JOB_FILE | {"lane": "night"}}).status_code == 201


def test_preemptible_lanes_are_changed_alone_and_kept_beside_other_changes(rig: Rig) -> None:
    put(rig, {"preemptible": ["large"]})
    answer = put(rig, {"preemption": {"by": "priority", "overstay": "never"}}).json()
    assert {lane["name"]: lane["preemptible"] for lane in answer["lanes"]} == {"large": True, "small": False}
    assert (answer["preemption"]["by"], answer["preemption"]["overstay"]) == ("priority", "never")
    assert {lane["name"]: lane["preemptible"] for lane in put(rig, {"mode": "fifo"}).json()["lanes"]} == {
        "large": True, "small": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"lanes": []}, "lanes"), ({"lanes": [{"min_gpus": 1}]}, "lanes.0.name"),
        ({"lanes": [LARGE, LARGE]}, "lanes[1].name"), ({"lanes": [LARGE | {"max_gpus": 1}]}, "lanes[0].lane.large"),
        ({"lanes": [LARGE | {"priorities": ["hihg"]}]}, "lanes.0.priorities.0"),
        ({"lanes": [LARGE | {"limit_ratio": 2}]}, "lanes.0.limit_ratio"), ({"preemptible": ["smal"]}, "preemptible"),
        ({"preemption": {"by": "size"}}, "preemption.by"),
        ({"preemption": {"overstay": "maybe"}}, "preemption.overstay"),
    ],
)  # fmt: skip
def test_invalid_rules_are_refused_with_their_field(rig: Rig, settings: dict, field: str) -> None:
    answer = put(rig, settings)
    assert (answer.status_code, error_of(answer)["field"]) == (422, field), answer.text
    assert rig.get("policy").json()["revision"] == 0


def test_lane_that_a_job_names_is_not_removed(rig: Rig) -> None:
    assert rig.post("jobs", "root", json={"file": JOB_FILE | {"lane": "small", "estimate": 60}}).status_code == 201
    answer = put(rig, {"lanes": [LARGE]})
    assert (answer.status_code, error_of(answer)["field"]) == (422, "lanes")
    assert "leaves out 'small', which 1 unfinished job named" in error_of(answer)["message"]
    assert rig.get("policy").json()["revision"] == 0


def test_rules_of_other_tenants_are_not_named(rig: Rig) -> None:
    put(rig, {"lanes": [REST | {"tenants": ["a", "b"]}]})
    assert rig.get("policy").json()["lanes"][0]["tenants"] == ["a", "another"]
    assert rig.get("policy", "root").json()["lanes"][0]["tenants"] == ["a", "b"]


@pytest.mark.parametrize("user", ["ann", "vic"])
def test_rules_are_changed_by_administrators_only(rig: Rig, user: str) -> None:
    assert put(rig, {"preemptible": ["large"]}, user).status_code == 403
