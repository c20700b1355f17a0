"""``why``, ``when``, ``story``, ``history``: what is known of a job."""

import json

import pytest

from gpusquad.cli._jobs import cards, ending, forecast_text, label
from gpusquad.cli._times import clock, stamp
from tests.canned.jobs import HOSTILE, hang_warning, job


def test_why(service, gsq):
    assert [line.rstrip() for line in gsq("why", "llama-finetune").stdout.splitlines()] == [
        "llama-finetune (0004bxdf) has been pending for 2 h, position 1 in the queue",
        "  no block  needs 8 GPUs on one node, the largest free block is 5",
        "            → ask for 4 GPUs on each of two nodes",
        "  reserved  would delay sweep-lr-0.1 (reserved to start in 40m): it may run 2h30m",
        "            0005bxdf",
        "            → a run of at most 40m can be backfilled",
        (
            "  passed by  01hzx7k2m9qd3w5r8t1v4y6a0c of ada (tenant vision), submitted later, started first by "
            "priority urgent, granted to tenant vision"
        ),
        "             by an administrator",
    ]


def test_why_not(service, gsq):
    service.set_answers("GET", "/jobs/llama-finetune/why", {"state": "pending", "position": 1, "reasons": []})
    assert "No blocking reason" in gsq("why", "llama-finetune").stdout
    running = job(service.now_s, 1, "vgg", "running")
    service.set_answers("GET", "/jobs/vgg", running)
    service.set_answers("GET", "/jobs/vgg/why", {"state": "running", "position": None, "reasons": []})
    assert gsq("why", "vgg").stdout == "vgg (0001bxdf) has been running for 1 h\n"


def test_why_of_a_running_job_says_what_hang_detection_warns_about(service, gsq):
    now_s = service.now_s
    service.set_answers("GET", "/jobs/vgg", job(now_s, 1, "vgg", "running"))
    endings = {now_s + 120: "it is stopped in 2 min unless that ends", None: "this alone does not stop it"}
    for stops_s, ends in endings.items():
        warning = hang_warning(now_s) | {"stops_s": stops_s}
        answer = {"state": "running", "position": None, "reasons": [], "passed": [], "hang_warnings": [warning]}
        service.set_answers("GET", "/jobs/vgg/why", answer)
        assert [line.rstrip() for line in gsq("why", "vgg").stdout.splitlines()] == [
            "vgg (0001bxdf) has been running for 1 h",
            "  hang warning: silent  no sign of life for 12m: no new output",
            "                        → check its logs",
            f"                        warned 2 min ago; {ends}",
        ]


def test_why_names_the_eligible_time_if_it_is_later_than_the_submission(service, gsq):
    now_s = service.now_s
    released = job(now_s, 1, "vgg", submitted_s=now_s - 7200, eligible_s=now_s - 60)
    service.set_answers("GET", "/jobs/vgg", released)
    service.set_answers("GET", "/jobs/vgg/why", {"state": "pending", "position": 1, "reasons": []})
    assert f"  Its place in the queue counts from {clock(now_s - 60, now_s)}" in gsq("why", "vgg").stdout
    service.set_answers("GET", "/jobs/vgg", released | {"eligible_s": now_s - 7200})
    assert "counts from" not in gsq("why", "vgg").stdout


def test_when(service, gsq):
    shown = gsq("when", "llama-finetune").stdout
    assert "in 12 min, at " in shown
    assert "in 9 of 10 cases" in shown
    assert "in 45 min" in shown
    assert "in 1 h 42 min" in shown


def test_when_of_one_that_is_over(service, gsq):
    over = job(service.now_s, 8, "x", "failed", started_s=service.now_s - 7200, ended_s=service.now_s - 3600, tasks=4,
               cause="task 3 failed", result={"task": 3, "exit_code": 2, "signal": None, "oom": False})  # fmt: skip
    service.set_answers("GET", "/jobs/x", over)
    answer = {"state": "failed", "start_s": over["started_s"], "high_s": None, "promised_s": None, "run": None,
              "position": None, "accuracy": None}  # fmt: skip
    service.set_answers("GET", "/jobs/x/when", answer)
    shown = gsq("when", "x").stdout
    assert shown.startswith("x (0008bxdf) failed 1 h ago\n")
    assert "task 3 failed" in shown
    assert "run time 1 h" in " ".join(shown.split())
    assert "unknown" not in shown
    run = {"mid_s": 1800.0, "high_s": None, "source": "user", "confidence": None}
    service.set_answers("GET", "/jobs/x/when", answer | {"run": run})
    assert "run time 1 h; predicted 30 min" in " ".join(gsq("when", "x").stdout.split())
    service.set_answers("GET", "/jobs/x/when", answer)
    service.set_answers("GET", "/jobs/x", over | {"cause": ""})
    assert "exit 2, task 3" in gsq("when", "x").stdout


def test_story(service, gsq):
    shown = gsq("story", "llama-finetune").stdout
    assert "urgent work of bo took its cards" in shown
    assert [line.split()[2:4] for line in shown.splitlines()[3:]] == [
        ["submitted", "pending"], ["3", "min"], ["57", "min"], ["10", "s"],
    ]  # fmt: skip


def test_what_an_event_carries(service, gsq):
    event = service.answers["GET", "/jobs/llama-finetune/story"][0].body["items"][0]
    data = {"start_us": 1_700_000_000_000_000, "by_us": 5, "cards": ["n0/0", "n0/1"], "slo": {"deadline": "6h"}}
    service.set_answers("GET", "/jobs/llama-finetune/story", {"items": [event | {"data": data}], "next": None})
    shown = " ".join(gsq("story", "llama-finetune").stdout.split())
    assert f"start {stamp(1_700_000_000)}, by_us 5, cards n0/0 n0/1, slo deadline 6h" in shown


def test_changed_run_times_are_shown_as_durations(service, gsq):
    event = service.answers["GET", "/jobs/llama-finetune/story"][0].body["items"][0]
    data = {"estimate": 7500.0, "limit": 14400, "name": "x"}
    event |= {"kind": "updated", "cause": "", "data": data}
    service.set_answers("GET", "/jobs/llama-finetune/story", {"items": [event], "next": None})
    shown = " ".join(gsq("story", "llama-finetune").stdout.split())
    assert "estimate 2 h 5 min, limit 4 h, name x" in shown


def test_history_and_its_filters(service, gsq):
    shown = gsq("history", "--since", "7d", "--until", "2030-01-01", "--user", "ana", "--tenant", "vision", "-s",
                "failed", "-s", "lost", "--text", "di", "--group", "g", "-n", 20).stdout  # fmt: skip
    query = service.requests[-1].query
    assert {"user": ["ana"], "tenant": ["vision"], "state": ["failed", "lost"], "text": ["di"], "group": ["g"],
            "limit": ["20"]}.items() <= query.items()  # fmt: skip
    assert 6 < (service.now_s - float(query["since_s"][0])) / 86400 < 8
    assert "task 3 ended with exit code 137" in " ".join(shown.split())


def test_history_lists_the_valid_states_for_an_unknown_one(service, gsq):
    for words in (("nosuch",), ("failed,nosuch",), ("failed", "--state", "nosuch")):
        told = gsq("history", "--state", *words, code=2).stderr
        assert told.startswith("error: state: 'nosuch' is not a job state (choose from held, pending, ")
    assert service.requests == []
    gsq("history", "--state", "failed,lost")
    assert service.requests_to("GET", "/jobs")[0].query["state"] == ["failed", "lost"]


def test_history_of_mine(service, gsq):
    gsq("history", "--mine")
    assert service.requests[-1].query["user"] == ["ana"]


@pytest.mark.parametrize("verb", ["why", "when", "story"])
def test_as_json(service, gsq, verb):
    data = json.loads(gsq(verb, "llama-finetune", "--json").stdout)
    assert data["items" if verb == "story" else "position"]
    assert gsq(verb, "nope", "--json", code=3).stdout == ""


def test_hostile_text_in_every_answer(service, gsq):
    bad = job(service.now_s, 6, HOSTILE, "failed", user=HOSTILE, cause=HOSTILE, ended_s=service.now_s, tenant=HOSTILE)
    reason = {"code": HOSTILE, "message": HOSTILE, "cure": HOSTILE, "who": [HOSTILE], "numbers": {}}
    event = {"id": 1, "at_s": 0.0, "kind": HOSTILE, "state": HOSTILE, "attempt": 0, "cause": "", "actor": HOSTILE,
             "data": {HOSTILE: [HOSTILE]}}  # fmt: skip
    service.set_answers("GET", "/jobs/bad", bad)
    service.set_answers("GET", "/jobs", {"items": [bad], "next": None})
    service.set_answers("GET", "/jobs/bad/why", {"state": "failed", "position": 1, "reasons": [reason]})
    service.set_answers("GET", "/jobs/bad/story", {"items": [event], "next": None})
    run = {"mid_s": 1.0, "high_s": None, "source": HOSTILE}
    when = {"start_s": None, "high_s": None, "promised_s": None, "run": run, "position": None, "accuracy": None}
    service.set_answers("GET", "/jobs/bad/when", when)
    service.set_answers("POST", "/jobs/bad/cancel", bad)
    for words in (("why", "bad"), ("when", "bad"), ("story", "bad"), ("history",), ("cancel", "bad")):
        shown = gsq(*words).stdout
        assert "\x1b" not in shown, words
        assert "\u202e" not in shown, words


def test_cards_by_node():
    places = [{"task": t, "node": f"n{t}", "cards": [f"n{t}/{c}" for c in range(8)]} for t in range(2)]
    assert cards(places, 10) == "n0: 0 1 2 3 4 5 6 7 · n1: 0 1 and 6 more"
    assert cards([{"task": 0, "node": "n0", "cards": []}]) == "n0"
    assert cards([]) == ""


@pytest.mark.parametrize(
    ("result", "told"),
    [(None, ""), ({"exit_code": 1}, "exit 1"), ({"signal": 9}, "SIGKILL"), ({"signal": 99}, "signal 99"),
     ({"oom": True, "signal": 9}, "out of memory"), ({"exit_code": None}, "")],
)  # fmt: skip
def test_how_it_ended(result, told):
    assert ending({"result": result, "tasks": 1}) == told


def test_a_job_without_a_name():
    assert label({"id": "01jcp6m8qwz4t7y2k90004bxdf", "name": ""}) == "0004bxdf"


def test_over_its_forecast():
    late = job(1000.0, 1, "x", "running", started_s=0.0, forecast={"mid_s": 400.0, "high_s": 500.0, "source": "user"})
    assert forecast_text(late, 1000.0) == "10 min overdue"
    assert forecast_text(late | {"state": "held"}, 1000.0) == ""
    assert (
        forecast_text(late | {"state": "pending", "promised_s": 1120.0}, 1000.0)
        == f"reserved for {clock(1120.0, 1000.0)}"
    )
