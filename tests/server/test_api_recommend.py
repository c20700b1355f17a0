"""API of recommendations, and advice in the answers to submissions."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.server.schemas.recommend import RecommendView
from tests.server.rig import Rig, error_of
from tests.server.services.sampled_runs import EIGHT, run
from tests.server.services.world import World

FILE = {"command": ["python3", "train.py"], "name": "vgg", "gpus": 8}


@pytest.fixture
def rig(make_rig, tmp_path: Path) -> Rig:
    """An API with three past runs that used two of their eight cards."""
    worlds: list[World] = []

    def make(database, clock):
        worlds.append(World(tmp_path, EIGHT, database))
        return worlds[0].scheduler

    rig = make_rig(make_scheduler=make)
    for number in range(3):
        run(worlds[0], f"vgg-run{number}", 8, busy=(0.9, 0.8, *[0.0] * 6), peak_gib=20, cores=3)
    return rig


def recommend(rig: Rig, user: str = "root", **file) -> dict:
    response = rig.post("recommend", user, json={"file": FILE | file})
    assert response.status_code == 200, response.text
    RecommendView.model_validate(response.json())
    return response.json()


def test_recommendation_has_values_reasons_and_evidence(rig: Rig) -> None:
    answer = recommend(rig, cpu=64)
    lines = {line["field"]: line for line in answer["advice"]}
    assert lines["gpus"] == {
        "field": "gpus", "value": 2, "now": 8, "change": True, "why": "6 of the 8 cards were idle in the last 3 runs",
    }  # fmt: skip
    assert lines["gpu_memory"]["change"] is False  # every card here has enough
    assert (lines["cpu"]["value"], lines["cpu"]["change"]) == (4, True)
    assert answer["evidence"]["runs"] == 3
    assert answer["evidence"]["of"] == "runs of vgg in default"
    assert [use["busy_ratios"][0] for use in answer["evidence"]["uses"]] == pytest.approx([0.9] * 3)
    assert [(time["gpus"], time["source"]) for time in answer["times"]] == [
        (1, "default"), (2, "default"), (4, "default"), (8, "history"),
    ]  # fmt: skip
    assert answer["memory"]["source"] == "history"


def test_fewer_tasks_are_recommended_for_a_gang(rig: Rig) -> None:
    (line, *_) = recommend(rig, gpus=1, count=8)["advice"]
    assert (line["field"], line["value"], line["now"]) == ("count", 2, 8)


def test_memory_is_recommended_for_a_share(rig: Rig) -> None:
    answer = recommend(rig, gpus=None, share={"memory": "4GiB"})
    lines = {line["field"]: line for line in answer["advice"]}
    assert lines["share.memory"]["change"]
    assert "gpus" not in lines
    assert "share.memory of 4 GiB is less than" in answer["warnings"][0]


def test_recommendation_lists_missing_evidence_when_nothing_is_known(rig: Rig) -> None:
    answer = recommend(rig, name="never-seen", command=["other"])
    assert (answer["advice"], answer["times"], answer["memory"], answer["evidence"]) == ([], [], None, None)
    assert len(answer["missing"]) == 3


def test_runs_of_another_tenant_are_not_used(rig: Rig) -> None:
    assert recommend(rig, "ann")["evidence"] is None


def test_offline_estimate_in_the_job_file_is_used(rig: Rig) -> None:
    expect = {"memory": "30GiB", "by_gpus": {"1": 100, "2": 90, "4": 85}}
    answer = recommend(rig, name="never-seen", command=["other"], gpus=4, expect=expect)
    lines = {line["field"]: line["value"] for line in answer["advice"]}
    assert lines == {"gpus": 1, "gpu_memory": "36GiB"}
    assert {time["source"] for time in answer["times"] if time["gpus"] <= 4} == {"analytical"}


def test_only_the_memory_peak_is_recommended_for_roles(rig: Rig) -> None:
    roles = [{"name": "a", "gpus": 1}, {"name": "b", "gpus": 1}]
    answer = recommend(rig, gpus=None, roles=roles)
    assert answer["advice"] == []
    assert answer["memory"]


def test_invalid_file_is_refused_with_field_and_cure(rig: Rig) -> None:
    error = error_of(rig.post("recommend", "root", json={"file": FILE | {"gpus": "many"}}))
    assert error["field"].endswith("gpus")
    assert "auto" in error["cure"]
    assert rig.post("recommend", "ann", json={"file": FILE | {"tenant": "b"}}).status_code == 403


# -- submissions ---------------------------------------------------------------------------------------------------


def submit(rig: Rig, headers: dict | None = None, **file) -> dict:
    response = rig.post("jobs", "root", json={"file": FILE | file}, headers=headers or {})
    assert response.status_code == 201, response.text
    return response.json()


def test_submission_answer_has_the_chosen_values(rig: Rig) -> None:
    answer = submit(rig, gpus="auto", gpu_memory="auto")
    assert [text.split(" (")[0] for text in answer["chosen"]] == ["gpus: 2", "gpu_memory: 26GiB"]
    assert (answer["jobs"][0]["gpus"], answer["warnings"]) == (2, [])
    source = rig.get(f"jobs/{answer['jobs'][0]['id']}/source", "root").json()["spec"]
    assert (source["gpus"], source["gpu_memory"]) == (2, "26GiB")
    kinds = [line["kind"] for line in rig.get(f"jobs/{answer['jobs'][0]['id']}/story", "root").json()["items"]]
    assert kinds == ["pending", "advised", "advised"]


def test_resubmitted_job_keeps_the_chosen_values(rig: Rig) -> None:
    first = submit(rig, gpus="auto")["jobs"][0]
    again = rig.post(f"jobs/{first['id']}/resubmit", "root").json()
    assert (again["jobs"][0]["gpus"], again["chosen"]) == (2, [])


def test_warning_is_repeated_for_a_retried_submission(rig: Rig) -> None:
    for _ in range(2):
        answer = submit(rig, gpu_memory="8GiB", headers={"Idempotency-Key": "k"})
        assert len(answer["warnings"]) == 1
        assert "gpu_memory of 8 GiB is less than" in answer["warnings"][0]


def test_sweep_gets_one_warning(rig: Rig) -> None:
    answer = submit(rig, gpu_memory="8GiB", sweep={"seed": [1, 2, 3]})
    assert (len(answer["jobs"]), len(answer["warnings"])) == (3, 1)


def test_submission_with_enough_memory_has_no_advice(rig: Rig) -> None:
    answer = submit(rig, gpu_memory="40GiB")
    assert (answer["chosen"], answer["warnings"]) == ([], [])


def test_what_if_has_the_same_choices_and_warnings(rig: Rig) -> None:
    answer = rig.post("whatif", "root", json={"file": FILE | {"gpus": "auto"}}).json()
    assert answer["chosen"] == ["gpus: 2 (6 of the 8 cards were idle in the last 3 runs)"]
    assert len(answer["placement"][0]["cards"]) == 2
    assert rig.post("whatif", "root", json={"file": FILE | {"gpu_memory": "8GiB"}}).json()["warnings"]
