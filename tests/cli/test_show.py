"""``gpusquad show``: one job, and what was chosen for it beside what it used."""

import json

import pytest


def test_choices_are_shown_beside_what_was_used(service, gsq):
    shown = gsq("show", "llama-finetune").stdout
    rows = [line.split() for line in shown.splitlines()]
    assert ["cpu", "4", "2.9", "history"] in [row[:4] for row in rows]
    assert ["memory", "none", "default"] in [row[:3] for row in rows]
    assert "run 2h (by python3 estimate.py, in 1.5 s)" in shown
    assert "2.9 cores, 5.0 GiB of memory, 3.0 GiB of GPU memory" in shown


def test_goals_and_labels_are_shown(service, gsq):
    view = service.answers["GET", "/jobs/llama-finetune"][0].body
    deadline_s = view["submitted_s"] + 10 * 3600
    goals = {"slo": view["slo"] | {"deadline_s": deadline_s}, "priority": "high", "lane": "batch", "retries_left": 2,
             "estimate_s": 3600.0, "after": [{"job": "prepare", "on": "success"}]}  # fmt: skip
    service.set_answers("GET", "/jobs/llama-finetune", view | goals)
    shown = " ".join(gsq("show", "llama-finetune").stdout.split())
    assert "SLO deadline" in shown
    assert "in 8 h; latency 20 ms; throughput 100/s; availability 99.9 %" in shown
    for fact in (
        "labels priority high, lane batch", "time limit 4 h", "estimate 1 h", "attempt 1, 2 retries left",
        "waits for the success of prepare",
    ):  # fmt: skip
        assert fact in shown


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"deadline_met": True, "attainment_ratio": 0.975}, ("ago, met; latency", "(97.5 % met)")),
        ({"deadline_met": False, "unknown": True}, ("ago, missed; latency", "(unknown: no report)")),
        ({"deadline_met": None}, ("ago; latency 20 ms; throughput 100/s; availability 99.9 % submitted",)),
    ],
)
def test_state_of_the_slo_is_shown_beside_it(service, gsq, state, words):
    view = service.answers["GET", "/jobs/llama-finetune"][0].body
    slo = view["slo"] | {"deadline_s": view["submitted_s"], "attainment_ratio": None, "unknown": False} | state
    service.set_answers("GET", "/jobs/llama-finetune", view | {"slo": slo})
    shown = " ".join(gsq("show", "llama-finetune").stdout.split())
    for text in words:
        assert text in shown


def test_json_has_the_whole_answer(service, gsq):
    answer = json.loads(gsq("show", "llama-finetune", "--json").stdout)
    assert answer["auto"][0]["used"] == 2.9
    assert answer["estimator"]["fields"] == {"run": "2h"}


def test_estimator_that_runs_or_failed_is_shown(service, gsq):
    view = service.answers["GET", "/jobs/llama-finetune"][0].body
    for change, words in (({"state": "waiting"}, "estimator runs"), ({"warning": "it broke"}, "not used: it broke")):
        service.set_answers("GET", "/jobs/llama-finetune", view | {"estimator": view["estimator"] | change})
        assert words in " ".join(gsq("show", "llama-finetune").stdout.split())
