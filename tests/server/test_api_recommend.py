"""What a job should ask for, over the API; and what submissions are told of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.server.schemas.recommend import RecommendView
from tests.server.rig import Rig, error_of
from tests.server.services.used import EIGHT, run
from tests.server.services.world import World

FILE = {"command": ["python3", "train.py"], "name": "vgg", "gpus": 8}


@pytest.fixture
def rig(make_rig, tmp_path: Path) -> Rig:
    """Whose scheduler has seen three runs that used two of their eight cards."""
    worlds: list[World] = []

    def make(database, clock):
        worlds.append(World(tmp_path, EIGHT, database))
        return worlds[0].scheduler

    rig = make_rig(make_scheduler=make)
    for number in range(3):
        run(worlds[0], f"vgg-run{number}", 8, busy=(0.9, 0.8, *[0.0] * 6), peak_gib=20, cores=3)
    return rig


def recommended(rig: Rig, user: str = "root", **file) -> dict:
    answer = rig.post("recommend", user, json={"file": FILE | file})
    assert answer.status_code == 200, answer.text
    RecommendView.model_validate(answer.json())
    return answer.json()


def test_what_to_ask_for_and_why(rig: Rig) -> None:
    told = recommended(rig, cpu=64)
    lines = {line["field"]: line for line in told["advice"]}
    assert lines["gpus"] == {
        "field": "gpus", "value": 2, "now": 8, "change": True, "why": "6 of the 8 cards were idle in the last 3 runs",
    }  # fmt: skip
    assert lines["gpu_memory"]["change"] is False  # every card here has enough
    assert (lines["cpu"]["value"], lines["cpu"]["change"]) == (4, True)
    assert told["evidence"]["runs"] == 3
    assert told["evidence"]["of"] == "runs of vgg in default"
    assert [use["busy_ratios"][0] for use in told["evidence"]["uses"]] == pytest.approx([0.9] * 3)
    assert [(one["gpus"], one["source"]) for one in told["times"]] == [
        (1, "default"), (2, "default"), (4, "default"), (8, "history"),
    ]  # fmt: skip
    assert told["memory"]["source"] == "history"


def test_fewer_tasks_where_there_are_several(rig: Rig) -> None:
    (line, *_) = recommended(rig, gpus=1, count=8)["advice"]
    assert (line["field"], line["value"], line["now"]) == ("count", 2, 8)


def test_a_share_is_advised_on_its_memory(rig: Rig) -> None:
    told = recommended(rig, gpus=None, share={"memory": "4GiB"})
    lines = {line["field"]: line for line in told["advice"]}
    assert lines["share.memory"]["change"]
    assert "gpus" not in lines
    assert "share.memory of 4 GiB is less than" in told["warnings"][0]


def test_without_evidence_it_says_what_would_give_some(rig: Rig) -> None:
    told = recommended(rig, name="never-seen", command=["other"])
    assert (told["advice"], told["times"], told["memory"], told["evidence"]) == ([], [], None, None)
    assert len(told["missing"]) == 3


def test_another_tenant_hears_nothing_of_these_runs(rig: Rig) -> None:
    assert recommended(rig, "ann")["evidence"] is None


def test_an_estimate_in_the_file_is_evidence_too(rig: Rig) -> None:
    expect = {"memory": "30GiB", "by_gpus": {"1": 100, "2": 90, "4": 85}}
    told = recommended(rig, name="never-seen", command=["other"], gpus=4, expect=expect)
    lines = {line["field"]: line["value"] for line in told["advice"]}
    assert lines == {"gpus": 1, "gpu_memory": "36GiB"}
    assert {one["source"] for one in told["times"] if one["gpus"] <= 4} == {"analytical"}


def test_roles_are_told_of_their_peak_alone(rig: Rig) -> None:
    roles = [{"name": "a", "gpus": 1}, {"name": "b", "gpus": 1}]
    told = recommended(rig, gpus=None, roles=roles)
    assert told["advice"] == []
    assert told["memory"]


def test_what_is_wrong_with_the_file_is_named(rig: Rig) -> None:
    error = error_of(rig.post("recommend", "root", json={"file": FILE | {"gpus": "many"}}))
    assert error["field"].endswith("gpus")
    assert "auto" in error["cure"]
    assert rig.post("recommend", "ann", json={"file": FILE | {"tenant": "b"}}).status_code == 403


# -- submissions ---------------------------------------------------------------------------------------------------


def submitted(rig: Rig, headers: dict | None = None, **file) -> dict:
    answer = rig.post("jobs", "root", json={"file": FILE | file}, headers=headers or {})
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_submission_is_told_what_was_chosen(rig: Rig) -> None:
    told = submitted(rig, gpus="auto", gpu_memory="auto")
    assert [text.split(" (")[0] for text in told["chosen"]] == ["gpus: 2", "gpu_memory: 26GiB"]
    assert (told["jobs"][0]["gpus"], told["warnings"]) == (2, [])
    source = rig.get(f"jobs/{told['jobs'][0]['id']}/source", "root").json()["spec"]
    assert (source["gpus"], source["gpu_memory"]) == (2, "26GiB")
    kinds = [line["kind"] for line in rig.get(f"jobs/{told['jobs'][0]['id']}/story", "root").json()["items"]]
    assert kinds == ["pending", "advised", "advised"]


def test_the_same_job_once_more_has_the_same_numbers(rig: Rig) -> None:
    first = submitted(rig, gpus="auto")["jobs"][0]
    again = rig.post(f"jobs/{first['id']}/resubmit", "root").json()
    assert (again["jobs"][0]["gpus"], again["chosen"]) == (2, [])


def test_a_submission_is_warned_and_so_is_its_second_try(rig: Rig) -> None:
    for _ in range(2):
        told = submitted(rig, gpu_memory="8GiB", headers={"Idempotency-Key": "k"})
        assert len(told["warnings"]) == 1
        assert "gpu_memory of 8 GiB is less than" in told["warnings"][0]


def test_a_sweep_is_warned_once(rig: Rig) -> None:
    told = submitted(rig, gpu_memory="8GiB", sweep={"seed": [1, 2, 3]})
    assert (len(told["jobs"]), len(told["warnings"])) == (3, 1)


def test_nothing_to_say(rig: Rig) -> None:
    told = submitted(rig, gpu_memory="40GiB")
    assert (told["chosen"], told["warnings"]) == ([], [])


def test_what_if_tells_the_same(rig: Rig) -> None:
    told = rig.post("whatif", "root", json={"file": FILE | {"gpus": "auto"}}).json()
    assert told["chosen"] == ["gpus: 2 (6 of the 8 cards were idle in the last 3 runs)"]
    assert len(told["placement"][0]["cards"]) == 2
    assert rig.post("whatif", "root", json={"file": FILE | {"gpu_memory": "8GiB"}}).json()["warnings"]
