"""``recommend``, and what ``submit`` and ``whatif`` print about what was chosen."""

import json

import pytest

from tests.canned.forecasts import recommendation
from tests.canned.jobs import HOSTILE

NOTED = {"chosen": ["gpus: 2 (6 of the 8 cards were idle)"], "warnings": ["gpu_memory of 8 GiB is less"]}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "resnet50.yaml"
    path.write_text("version: 1\ngpus: 8\ncommand: [python3, train.py]\n")
    return path


def noted(service, path: str, **said) -> None:
    service.set_answers("POST", path, service.answers["POST", path][0].body | said)


def test_what_to_ask_for_why_and_how_long(service, gsq, file):
    shown = [line.rstrip() for line in gsq("recommend", file).stdout.splitlines()]
    assert shown[0] == "resnet50"
    assert shown[3].split(maxsplit=3) == ["gpus", "2", "8", "6 of the 8 cards were idle in the last 3 runs"]
    assert "not given" in shown[4]
    rows = [line.split() for line in shown if line.strip()[:1] in "1248" and "%" in line and "card" not in line]
    assert [(row[0], row[-1]) for row in rows] == [
        ("1", "history"), ("2", "history"), ("4", "default"), ("8", "history"),
    ]  # fmt: skip
    assert "  based on  12 runs of resnet50 by ana; latest: 0008bxdf, 0009bxdf" in shown
    assert "  job file  gpus: 2" in shown
    assert service.requests[-1].body["file"]["gpus"] == 8


def test_without_evidence(service, gsq, file):
    nothing = {"advice": [], "times": [], "memory": None, "evidence": None, "notes": [], "missing": ["run it once"]}
    noted(service, "/recommend", **nothing)
    shown = gsq("recommend", file).stdout
    assert "No recommendation: there is no evidence yet." in shown
    assert "missing  run it once" in shown
    assert "job file" not in shown


def test_nothing_to_change(service, gsq, file):
    advice = [line | {"change": False} for line in recommendation()["advice"]]
    noted(service, "/recommend", advice=advice, jobs=3)
    shown = gsq("recommend", file).stdout
    assert "no changes" in shown
    assert "the first of 3 jobs" in shown


def test_as_json(service, gsq, file):
    assert json.loads(gsq("recommend", file, "--json").stdout) == recommendation()


def test_options_describe_a_job_as_they_do_for_submit(service, gsq):
    gsq("recommend", "--gpus", "auto", "--gpu-memory", "auto", "--", "python3", "train.py")
    request = service.requests[-1].body["file"]
    assert (request["gpus"], request["gpu_memory"], request["name"]) == ("auto", "auto", "train")


def test_a_file_that_is_not_there(service, gsq):
    assert "does not exist" in gsq("recommend", "nope.yaml", code=2).stderr


def test_hostile_text(service, gsq, file):
    line = recommendation()["advice"][0] | {"field": HOSTILE, "why": HOSTILE, "value": HOSTILE, "now": HOSTILE}
    noted(service, "/recommend", advice=[line], notes=[HOSTILE], warnings=[HOSTILE], missing=[HOSTILE])
    assert "\x1b" not in gsq("recommend", file).stdout


@pytest.mark.parametrize(("words", "path"), [(["submit"], "/jobs"), (["whatif"], "/whatif"),
                                             (["submit", "--dry-run"], "/whatif")])  # fmt: skip
def test_what_was_chosen_and_warnings_go_beside_the_answer(service, gsq, file, words, path):
    noted(service, path, **NOTED)
    result = gsq(*words, file)
    assert "chosen: gpus: 2 (6 of the 8 cards were idle)\n" in result.stderr
    assert "warning: gpu_memory of 8 GiB is less\n" in result.stderr
    assert "warning" not in result.stdout


def test_for_scripts_too(service, gsq, file):
    noted(service, "/jobs", **NOTED)
    result = gsq("submit", file, "--json")
    assert json.loads(result.stdout)["warnings"] == NOTED["warnings"]
    assert gsq("submit", file, "-q").stdout.strip().isalnum()


def test_a_dry_run_submits_nothing(service, gsq, file):
    gsq("submit", file, "--dry-run")
    assert not any(request.method == "POST" and request.path.endswith("/jobs") for request in service.requests)
    refused = {"refused": {"code": "never_fits", "message": "needs 8", "cure": "", "numbers": {}, "who": []}}
    noted(service, "/whatif", **refused)
    gsq("submit", file, "--dry-run", code=6)


@pytest.mark.parametrize("saved", [{"run": 60, "memory": 1}, {"expect": {"run": 60, "memory": 1}, "card": "H100"}])
def test_a_saved_estimate_goes_along(service, gsq, file, tmp_path, saved):
    path = tmp_path / "estimate.json"
    path.write_text(json.dumps(saved))
    gsq("submit", file, "--expect", path)
    sent = next(request for request in service.requests if request.method == "POST").body["file"]
    assert sent["expect"] == {"run": 60, "memory": 1}
    assert "does not exist" in gsq("submit", file, "--expect", tmp_path / "none.json", code=2).stderr


@pytest.mark.parametrize("gpus", ["-1", "1.5", "many"])
def test_a_number_of_gpus_that_is_none(service, gsq, gpus):
    assert "GPU" in gsq("submit", "--gpus", gpus, "--", "true", code=2).stderr
