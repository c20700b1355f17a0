"""``gpusquad queue``."""

import json

import pytest
from rich.cells import cell_len

from gpusquad.cli._jobs import time_in_state
from tests.canned.jobs import HOSTILE, hang_warning, job


def test_who_runs_and_who_waits(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = gsq("queue").stdout
    lines = shown.splitlines()
    assert " ".join(lines[0].split()) == "# JOB NAME USER TENANT GPUS STATE FOR NEXT WHERE / WHY"
    assert "62 % · 30 min left" in shown
    assert "n0: 0 1 2 3" in shown
    assert "in 12–24 min" in shown
    assert "needs 8 GPUs on one node, the largest free block is 5" in shown
    assert lines[-1] == "2 running · 1 starting · 3 pending · 1 held"


@pytest.mark.parametrize(
    ("width", "text"), [("200", "running (hang warning: silent)"), ("100", "running (hang: silent)")]
)
def test_running_job_with_a_hang_warning_is_marked(service, gsq, monkeypatch, width, text):
    monkeypatch.setenv("COLUMNS", width)
    answer = service.answers["GET", "/queue"][0].body
    first, *others = answer["running"]
    warned = first | {"hang_warnings": [hang_warning(first["started_s"])]}
    service.set_answers("GET", "/queue", answer | {"running": [warned, *others]})
    lines = gsq("queue").stdout.splitlines()
    assert [text in line for line in lines].count(True) == 1
    assert text in next(line for line in lines if "vgg16" in line)


@pytest.mark.parametrize("width", [40, 60, 72, 80, 100, 110, 200])
def test_every_width(service, gsq, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = gsq("queue").stdout
    assert all(cell_len(line) <= width for line in shown.splitlines())
    if width >= 60:
        assert all(f"{number:04d}bxdf" in shown for number in range(1, 7))


def test_narrow_terminals_get_codes_for_reasons(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = gsq("queue").stdout
    assert "no block" in shown
    assert "largest free block" not in shown


def test_hostile_names_are_only_text(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = gsq("queue").stdout
    assert "\x1b[2J" not in shown
    assert "\u202e" not in shown
    assert "<img src=x onerror=al" in shown
    monkeypatch.delenv("COLUMNS")
    monkeypatch.delenv("FORCE_COLOR")
    assert r"<img src=x onerror=alert(1)> [red]x[/red] ^[[31mred^[[2J\u202egnp.exe" in gsq("queue").stdout


def test_json_is_what_the_api_answered(service, gsq):
    data = json.loads(gsq("queue", "--json").stdout)
    assert data == service.answers["GET", "/queue"][0].body
    assert data["items"][2]["name"] == HOSTILE


def test_only_mine(service, gsq):
    data = json.loads(gsq("queue", "--mine", "--json").stdout)
    assert {job["user"] for job in (*data["items"], *data["running"])} == {"ana"}


def test_only_a_tenant_and_a_state(service, gsq):
    data = json.loads(gsq("queue", "--tenant", "nlp", "--state", "running", "--json").stdout)
    assert [job["name"] for job in data["running"]] == ["bert-pretraining-of-a-long-name"]
    assert data["items"] == []
    assert service.requests_to("GET", "/queue")[0].query["tenant"] == ["nlp"]


def test_held_jobs_are_asked_for_apart(service, gsq):
    held = job(service.now_s, 20, "later", "held", cause="held by ana")
    service.set_answers("GET", "/jobs", {"items": [held], "next": None})
    shown = gsq("queue", "--state", "held").stdout
    assert "later" in shown
    assert "held by ana" in shown
    assert service.requests_to("GET", "/jobs")[0].query["state"] == ["held"]


def test_a_state_that_is_none(service, gsq):
    assert "'done' is not a job state" in gsq("queue", "--state", "done", code=2).stderr


def test_nobody(service, gsq):
    service.set_answers("GET", "/queue", {"items": [], "running": [], "counts": {}, "next": None})
    assert gsq("queue").stdout == "no running or pending jobs\n"


def test_a_part_of_many(service, gsq):
    one = service.answers["GET", "/queue"][0].body
    service.set_answers("GET", "/queue", one | {"next": "3"})
    assert "3 pending jobs shown, use --limit N for more" in gsq("queue", "--limit", "3").stdout
    assert service.requests[-1].query["limit"] == ["3"]


def test_watching_needs_a_terminal(service, gsq):
    assert "needs a terminal" in gsq("queue", "--watch", code=2).stderr


def test_watching_as_json(service, gsq, monkeypatch):
    looks = []

    def sleep(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    lines = gsq("queue", "--watch", "--json", code=130).stdout.splitlines()
    assert [json.loads(line)["counts"]["pending"] for line in lines] == [3, 3, 3]


def test_jobs_that_the_service_holds_are_shown_with_their_reason_and_next_attempt(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    now_s = service.now_s
    held = [
        job(now_s, 21, "estimated", "held") | {"reason": {"code": "held", "message": "its estimator runs"}},
        job(now_s, 22, "lost", "held", next_attempt_s=now_s + 120)
        | {"reason": {"code": "held", "message": "lost 2 times"}},
    ]
    service.set_answers("GET", "/queue", service.answers["GET", "/queue"][0].body | {"held": held})
    shown = gsq("queue").stdout
    estimated, lost = (next(line for line in shown.splitlines() if name in line) for name in ("estimated", "lost"))
    assert "its estimator runs" in estimated
    assert "attempt in 2 min" in lost
    assert "lost 2 times" in lost
    assert "estimated" not in gsq("queue", "--state", "pending").stdout
    bare = [{name: value for name, value in one.items() if name != "reason"} for one in held]
    service.set_answers("GET", "/jobs", {"items": bare, "next": None})
    assert gsq("queue", "--state", "held").stdout.count("its estimator runs") == 1
    monkeypatch.setenv("COLUMNS", "80")
    assert "its estimator" in " ".join(gsq("queue").stdout.split())


def test_job_that_waits_for_another_says_so_among_held_ones(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    waits = job(service.now_s, 20, "later", "held", after=[{"job": "01jcp6m8qwz4t7y2k90001bxdf", "on": "success"}])
    service.set_answers("GET", "/jobs", {"items": [waits], "next": None})
    assert "waits for the success of 0001bxdf" in gsq("queue", "--state", "held").stdout


def test_time_of_a_held_job_counts_from_its_hold():
    held = job(10_000.0, 1, "x", "held", submitted_s=1_000.0)
    assert time_in_state(held | {"held_s": 9_949.0}, 10_000.0) == "51 s"
    assert time_in_state(held, 10_000.0) == "2 h 30 min"
