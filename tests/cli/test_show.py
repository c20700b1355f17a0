"""``gpusquad show``: one job, and what was chosen for it beside what it used."""

import json


def test_choices_are_shown_beside_what_was_used(service, gsq):
    shown = gsq("show", "llama-finetune").stdout
    rows = [line.split() for line in shown.splitlines()]
    assert ["cpu", "4", "2.9", "history"] in [row[:4] for row in rows]
    assert ["memory", "none", "default"] in [row[:3] for row in rows]
    assert "run 2h (by python3 estimate.py, in 1.5 s)" in shown
    assert "2.9 cores, 5.0 GiB of memory, 3.0 GiB of GPU memory" in shown


def test_json_has_the_whole_answer(service, gsq):
    answer = json.loads(gsq("show", "llama-finetune", "--json").stdout)
    assert answer["auto"][0]["used"] == 2.9
    assert answer["estimator"]["fields"] == {"run": "2h"}


def test_estimator_that_runs_or_failed_is_shown(service, gsq):
    view = service.answers["GET", "/jobs/llama-finetune"][0].body
    for change, words in (({"state": "waiting"}, "estimator  runs"), ({"warning": "it broke"}, "not used: it broke")):
        service.set_answers("GET", "/jobs/llama-finetune", view | {"estimator": view["estimator"] | change})
        assert words in gsq("show", "llama-finetune").stdout
