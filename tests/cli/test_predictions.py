"""``predictions``, and what ``when`` says of run times."""

import json
import re

import pytest

from gpusquad.cli._predictions_page import render
from tests.canned.jobs import HOSTILE, RECORD, job, run_time


def test_tables_by_tenant_and_source(service, gsq):
    shown = gsq("predictions", "--tenant", "vision", "--since", "7d").stdout
    query = service.requests[-1].query
    assert query["tenant"] == ["vision"]
    assert 6.9 < (service.now_s - float(query["since_s"][0])) / 86400 < 7.1
    assert re.search(r"vision +120 +7 +14 % +6 min +48 % +91 % +99 % +\+5 % +2 min", shown)
    assert re.search(r" 0 +3 +– +– +– +– +– +– +–", shown)
    assert "\x1b" not in shown


def test_start_forecasts_are_shown_by_tenant(service, gsq):
    shown = gsq("predictions").stdout
    assert re.search(r"vision +80 +71 % +62 % +55 % +88 % +4 min +25 min", shown)
    assert "three of four jobs" in shown


def test_nothing_yet(service, gsq):
    empty = {"since_s": 0.0, "count": 0, "tenants": [], "sources": [], "calibration": [], "points": []}
    service.set_answers("GET", "/predictions", empty)
    assert "no finished runs with predictions yet" in gsq("predictions").stdout


def test_as_json(service, gsq):
    assert json.loads(gsq("predictions", "--json").stdout)["sources"][0]["key"] == "history"


def test_the_page_is_whole_and_safe(service, gsq, tmp_path):
    pytest.importorskip("plotly")
    page = tmp_path / "page.html"
    assert "Wrote" in gsq("predictions", "--html", page).stderr
    assert service.requests[-1].query["points"] == ["3000"]
    text = page.read_text("utf-8")
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    calibration, truth = figures["calibration"]["data"], figures["truth"]["data"]
    assert (calibration[1]["name"], calibration[1]["x"]) == ("history", [10.0, 50.0, 90.0])
    assert truth[1]["x"] == [0.1, 60.0, 120.0, 180.0, 240.0]
    assert "<img src=x" not in text
    assert not re.search(r'(?:src|href)="https?:', text.partition("<script>")[0])


def test_a_page_of_nothing():
    pytest.importorskip("plotly")
    empty = {"since_s": 0.0, "count": 0, "tenants": [], "sources": [], "calibration": [], "points": []}
    assert "0 runs of tenant &lt;b&gt;" in render(empty, "<b>")
    assert "1 run since" in render(empty | {"count": 1})


def when(service, gsq, **more) -> str:
    answer = {"state": "running", "start_s": service.now_s - 60, "high_s": None, "promised_s": None, "position": None,
              "accuracy": None, "run": run_time(600.0, 1200.0, "similar"), "run_record": RECORD,
              "end": None}  # fmt: skip
    service.set_answers("GET", "/jobs/x", job(service.now_s, 1, "x", "running", started_s=service.now_s - 60))
    service.set_answers("GET", "/jobs/x/when", answer | more)
    return gsq("when", "x").stdout


def test_when_tells_the_run_time_its_source_and_its_record(service, gsq):
    shown = when(service, gsq)
    assert "10 min to 20 min (similar jobs; confidence 75 %)" in shown
    assert "of the last 120 such predictions, 91 % of the jobs ended by the predicted P90; median error 14 %" in shown
    assert "in 9 min" in shown


def test_when_tells_the_end_as_things_stand(service, gsq):
    end = {"mid_s": service.now_s + 1800, "high_s": service.now_s + 3600, "source": "progress"}
    shown = when(service, gsq, end=end)
    assert re.search(r"ends +about .*, in 30 min; by .* in 9 of 10 cases \(its progress\)", shown)
    shown = when(service, gsq, end=end | {"source": HOSTILE})
    assert "\x1b" not in shown


def test_promised_starts_are_shown_with_what_delayed_them(service, gsq):
    shown = gsq("predictions").stdout
    assert "Promised starts: 38 of 40 kept; 2 late, median 8 min, worst 10 min" in shown
    assert "True head delay: 1 of 25 heads delayed, median 9 min, worst 9 min" in shown
    assert re.search(r"a backfilled job overstayed +1 +10 min +10 min", shown)
    assert re.search(r"sweep .* 5 min .* a job ahead ran longer", shown)
    assert re.search(r"of bo \(tenant\s+vision\)", shown)
    assert "\x1b" not in shown


def test_reserved_start_that_is_too_early_is_shown_as_late(service, gsq):
    answer = {"state": "pending", "start_s": service.now_s + 3600, "high_s": None, "promised_s": service.now_s - 60,
              "position": 1, "accuracy": None, "run": None, "run_record": None, "end": None}  # fmt: skip
    service.set_answers("GET", "/jobs/x", job(service.now_s, 1, "x", "pending"))
    service.set_answers("GET", "/jobs/x/when", answer)
    shown = gsq("when", "x").stdout
    assert re.search(r"reserved +for .*; now 1 h 1 min later", shown)
    assert "at the latest" not in shown


def test_end_that_is_not_known_is_said_in_the_queue(service, gsq):
    running = job(service.now_s, 1, "x", "running", started_s=service.now_s - 60)
    queue = {"items": [], "running": [running | {"end": None}], "counts": {"running": 1}, "next": None}
    service.set_answers("GET", "/queue", queue)
    assert "end not known" in gsq("queue").stdout
