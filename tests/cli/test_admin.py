"""What administrators and owners change."""

import json

import pytest

from tests.canned.answers import canned

TABLES = [
    ("queue",), ("nodes",), ("nodes", "--cards"), ("history",), ("usage",), ("usage", "--by", "job"), ("window",),
    ("window", "list"), ("policy",), ("policy", "show"), ("policy", "history"), ("policy", "preview", "fair"),
    ("token",), ("token", "list"), ("tenant",), ("tenant", "list"), ("user",), ("user", "list"), ("secret",),
    ("secret", "list"), ("notify",), ("notify", "list"), ("notify", "failed"), ("status",), ("top", "--once"),
    ("inbox",), ("inbox", "--unread"), ("inbox", "--all"), ("inbox", "--read"),
    ("why", "llama-finetune"), ("when", "llama-finetune"), ("story", "llama-finetune"),
    ("resubmit", "llama-finetune"), ("hold", "llama-finetune"), ("release", "llama-finetune"),
    ("update", "llama-finetune", "-p", "high"), ("cancel", "llama-finetune"), ("drain", "n1"), ("undrain", "n1"),
    ("cordon", "n0/3"), ("uncordon", "n0/3"), ("policy", "set", "fair"), ("user", "add", "eve"),
    ("policy", "show", "--card", "0"), ("policy", "show", "--card", "all"), ("policy", "set", "--card", "0", "slo"),
    ("policy", "set", "-c", "n0/1", "--reset"), ("policy", "history", "--card", "0"),
    ("user", "set", "bo", "--enable"), ("tenant", "set", "vision", "--weight", "3"), ("token", "create"),
    ("window", "add", "n1"), ("notify", "add", "slack://x"), ("notify", "test", "4"),
]  # fmt: skip
NO_JSON = {("token",), ("window",), ("policy",), ("tenant",), ("user",), ("secret",), ("notify",)}


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_every_verb_for_people_and_for_programs(service, gsq, monkeypatch, words):
    for width in ("50", "80", "200"):
        monkeypatch.setenv("COLUMNS", width)
        shown = gsq(*words).stdout
        assert shown.strip()
        assert all(len(line) <= int(width) for line in shown.splitlines() if "─" in line)
    if words not in NO_JSON:
        assert isinstance(json.loads(gsq(*words, "--json").stdout), dict)


def body(service, method: str, path: str) -> dict:
    return service.requests_to(method, path)[-1].body


def test_policy_in_the_apis_words(service, gsq):
    gsq("policy", "set", "fair", "--order", "las", "--preempt", "priority", "--min-run", "10min", "--most-per-job", 2,
        "--note", "why not")  # fmt: skip
    assert body(service, "PUT", "/policy") == {
        "mode": "fair", "order": "las", "note": "why not",
        "preemption": {"by": "priority", "min_run_s": 600.0, "most_per_job": 2},
    }  # fmt: skip
    assert "policy: is not changed" in gsq("policy", "set", code=2).stderr
    assert "28 min later" in gsq("policy", "preview", "--place", "spread").stdout


def test_why_names_who_passed_by_which_right(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = gsq("why", "llama-finetune").stdout
    assert "passed by" in shown
    assert "by priority urgent, granted to tenant vision by an administrator" in shown
    assert json.loads(gsq("why", "llama-finetune", "--json").stdout)["passed"][0]["by"] == "priority"


def test_lane_and_preemption_rules(service, gsq, tmp_path):
    rules = tmp_path / "lanes.toml"
    rules.write_text('version = 1\n[[lanes]]\nname = "night"\npriorities = ["low", 5]\n[[lanes]]\nname = "day"\n')
    gsq("policy", "set", "--lanes", rules, "--preemptible", "night", "--overstay", "always")
    sent = body(service, "PUT", "/policy")
    assert [(lane["name"], lane["priorities"]) for lane in sent["lanes"]] == [("night", ["low", "5"]), ("day", [])]
    assert (sent["preemptible"], sent["preemption"]) == (["night"], {"overstay": "always"})
    gsq("policy", "set", "--preemptible", "none")
    assert body(service, "PUT", "/policy") == {"preemptible": []}
    rules.write_text('version = 1\n[[lanes]]\nname = "night"\nmin_gpu = 2\n')
    assert "lanes.toml.lanes[0].min_gpu" in gsq("policy", "set", "--lanes", rules, code=2).stderr
    shown = gsq("policy", "show").stdout
    assert "backfilled jobs that outlive their time are preempted if they write checkpoints" in shown
    lines = {line.split()[0]: line for line in shown.splitlines() if line.startswith(("large", "small"))}
    assert "8 GPUs or more" in lines["large"]
    assert "50% of GPUs" in lines["small"]


def test_preemption_limit_of_one_is_shown_in_the_singular(service, gsq):
    answer = service.answers["GET", "/policy"][0].body
    once = {"by": "priority", "min_run_s": 0.0, "most_per_job": 1}
    service.set_answers("GET", "/policy", answer | {"preemption": once})
    assert "at most 1 time per job" in gsq("policy").stdout


def test_automatic_mode_shows_what_it_chose_and_what_is_next(service, gsq):
    answer = service.answers["GET", "/policy"][0].body
    chosen = {
        "mode": "slo", "since_s": answer["since_s"], "why": "3 of 12 pending and running jobs have a deadline",
        "changes": 1, "max_changes": 2, "next_mode": "", "next_s": None, "next_why": "",
    }  # fmt: skip
    service.set_answers("GET", "/policy", answer | {"mode": "auto", "automatic": chosen})
    shown = " ".join(gsq("policy").stdout.split())
    assert "Mode auto (slo), revision 7" in shown
    assert "because 3 of 12 pending and running jobs have a deadline" in shown
    assert "1 of at most 2 in 24 hours" in shown
    assert " next " not in shown
    assert "auto (slo)" in gsq("status").stdout
    later = chosen | {"next_mode": "fair", "next_s": answer["since_s"] + 2 * 86_400, "next_why": "two tenants contend"}
    service.set_answers("GET", "/policy", answer | {"mode": "auto", "automatic": later})
    shown = " ".join(gsq("policy").stdout.split())
    assert "next fair in 1 d" in shown
    assert "if two tenants contend until then" in shown


def test_a_preview_that_changes_nothing(service, gsq):
    service.set_answers("POST", "/policy/preview", {"starts": [], "preempted": [], "moved": []})
    assert "No pending job would be affected" in gsq("policy", "preview", "fifo").stdout


def test_a_tenant_keeps_what_is_not_given(service, gsq):
    gsq("tenant", "set", "vision", "--weight", "3", "--limit", "none", "--reclaim", "2min")
    assert body(service, "PUT", "/tenants/vision") == {
        "weight": 3.0, "guaranteed_gpus": 4, "limit_gpus": None, "reclaim_s": 120.0, "max_pending": None,
        "on_hang": "stop", "run_as": None, "max_priority": "normal", "may_choose_lane": False,
        "urgent_gpu_hours": None,
    }  # fmt: skip
    assert "'many' is not a number" in gsq("tenant", "set", "vision", "--limit", "many", code=2).stderr
    assert "is not changed" in gsq("tenant", "set", "vision", code=2).stderr


def test_a_new_tenant(service, gsq):
    service.set_answers("PUT", "/tenants/new", service.answers["GET", "/tenants"][0].body["items"][1])
    gsq("tenant", "set", "new")
    assert body(service, "PUT", "/tenants/new") == {}


def test_rights_of_tenants_and_users(service, gsq):
    gsq("tenant", "set", "vision", "--max-priority", "high", "--may-choose-lane", "yes")
    sent = body(service, "PUT", "/tenants/vision")
    assert (sent["max_priority"], sent["may_choose_lane"], sent["guaranteed_gpus"]) == ("high", True, 4)
    gsq("user", "set", "bo", "--max-priority", "urgent", "--may-choose-lane", "no")
    assert body(service, "PATCH", "/users/bo") == {"max_priority": "urgent", "may_choose_lane": False}
    gsq("user", "set", "bo", "--max-priority", "none", "--may-choose-lane", "none")
    assert body(service, "PATCH", "/users/bo") == {"max_priority": None, "may_choose_lane": None}
    gsq("user", "add", "eve", "--max-priority", "high")
    assert body(service, "POST", "/users") == {
        "name": "eve", "tenant": "default", "role": "member", "max_priority": "high",
    }  # fmt: skip
    gsq("user", "add", "eve")
    assert body(service, "POST", "/users") == {"name": "eve", "tenant": "default", "role": "member"}
    gsq("user", "set", "bo", "--max-priority", "1000")
    assert body(service, "PATCH", "/users/bo") == {"max_priority": "high"}
    gsq("tenant", "set", "vision", "--max-priority", "-5")
    assert body(service, "PUT", "/tenants/vision")["max_priority"] == "-5"
    assert "'very'" in gsq("tenant", "set", "vision", "--max-priority", "very", code=2).stderr
    assert "'very'" in gsq("user", "set", "bo", "--max-priority", "very", code=2).stderr


def test_budget_of_a_tenant_is_set_removed_and_shown(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    tenants = service.answers["GET", "/tenants"][0].body["items"]
    assert "URGENT GPU-HOURS" not in gsq("tenant").stdout
    with_budget = tenants[0] | {"name": "vision", "urgent_gpu_hours": 100.0, "urgent_gpu_hours_used": 37.25}
    without = tenants[1] | {"urgent_gpu_hours_used": 1.5}
    service.set_answers("GET", "/tenants", {"items": [with_budget, without]})
    head, _, first, second = (line.strip() for line in gsq("tenant", "list").stdout.splitlines() if line.strip())
    assert head.endswith("URGENT GPU-HOURS")
    assert (first.endswith(" 37.2 of 100"), second.endswith(" 1.5")) == (True, True)
    assert json.loads(gsq("tenant", "list", "--json").stdout)["items"][0]["urgent_gpu_hours_used"] == 37.25
    gsq("tenant", "set", "vision", "--urgent-hours", "12.5")
    assert body(service, "PUT", "/tenants/vision")["urgent_gpu_hours"] == 12.5
    gsq("tenant", "set", "vision", "--weight", "2")
    assert body(service, "PUT", "/tenants/vision")["urgent_gpu_hours"] == 100.0
    gsq("tenant", "set", "vision", "--urgent-hours", "none")
    assert body(service, "PUT", "/tenants/vision")["urgent_gpu_hours"] is None
    assert "'many' is not a number" in gsq("tenant", "set", "vision", "--urgent-hours", "many", code=2).stderr


def test_lists_show_rights(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    tenants, users = (service.answers["GET", path][0].body["items"] for path in ("/tenants", "/users"))
    service.set_answers("GET", "/tenants", {"items": [tenants[0] | {"max_priority": "high", "may_choose_lane": True}]})
    shown = gsq("tenant").stdout
    assert "MAX PRIORITY" in shown
    assert "high" in shown
    people = [
        users[0] | {"name": "ana", "role": "admin"}, users[0] | {"name": "bo", "role": "member"},
        users[0] | {"name": "cy", "role": "member", "max_priority": "urgent", "may_choose_lane": False},
    ]  # fmt: skip
    service.set_answers("GET", "/users", {"items": people})
    lines = {line.split()[0]: line for line in gsq("user").stdout.splitlines() if line.strip()}
    assert "any" in lines["ana"]
    assert "as tenant" in lines["bo"]
    assert "urgent" in lines["cy"]
    assert "by rule" in lines["cy"]
    assert json.loads(gsq("user", "list", "--json").stdout)["items"][2]["max_priority"] == "urgent"


def test_refused_priority_names_field_cause_and_cure(service, gsq):
    service.fail(
        "PATCH", "/jobs/llama-finetune", 403, "forbidden", "urgent is above your maximum, which is normal",
        "priority", "ask an administrator to run gpusquad user set bo --max-priority urgent",
    )  # fmt: skip
    shown = gsq("update", "llama-finetune", "--priority", "urgent", code=4).stderr
    assert "priority" in shown
    assert "urgent is above your maximum, which is normal" in shown
    assert "gpusquad user set bo --max-priority urgent" in " ".join(shown.split())


def test_a_new_token_stands_alone_on_stdout(service, gsq):
    result = gsq("token", "create", "--label", "ci", "--scope", "read", "--scope", "submit", "--expires", "30d")
    assert result.stdout == "gsq_new_token\n"
    assert "shown only once" in result.stderr
    sent = body(service, "POST", "/tokens")
    assert (sent["label"], sent["scopes"]) == ("ci", ["read", "submit"])
    assert 29 < (sent["expires_s"] - service.now_s) / 86400 < 31


def test_removing(service, gsq):
    gsq("token", "revoke", "t1")
    gsq("window", "remove", "w1")
    gsq("notify", "remove", 4)
    gsq("secret", "remove", "WANDB_API_KEY")
    gsq("notify", "retry", 9)
    assert [request.method for request in service.requests] == ["DELETE", "DELETE", "DELETE", "DELETE", "POST"]
    gsq("window", "remove", "w2", code=3)


def test_a_secret_from_stdin(service, gsq):
    shown = gsq("secret", "set", "WANDB_API_KEY", "--tenant", "vision", stdin="line 1\nline 2\n")
    request = service.requests[-1]
    assert request.body == {"value": "line 1\nline 2"}
    assert request.query == {"tenant": ["vision"]}
    assert "line 1" not in shown.output
    assert "is empty" in gsq("secret", "set", "X", stdin="", code=2).stderr
    assert "is longer" in gsq("secret", "set", "X", stdin="x" * 70_000, code=2).stderr


def test_a_secret_is_no_argument(service, gsq):
    gsq("secret", "set", "NAME", "value", code=2)
    assert service.requests == []


def test_windows(service, gsq):
    gsq("window", "add", "n1", "n2", "--start", "2h", "--for", "4h", "--cause", "fan")
    sent = body(service, "POST", "/windows")
    assert sent["nodes"] == ["n1", "n2"]
    assert sent["end_s"] - sent["start_s"] == pytest.approx(4 * 3600)
    assert 7000 < sent["start_s"] - service.now_s < 7300
    gsq("window", "add", "n1")
    assert body(service, "POST", "/windows")["end_s"] is None
    assert "cannot be combined with --for" in gsq("window", "add", "n1", "--for", "1h", "--end", "2h", code=2).stderr


def test_causes_are_sent(service, gsq):
    gsq("drain", "n1", "--cause", "fan")
    gsq("cordon", "n0/3", "--cause", "ECC")
    gsq("cancel", "llama-finetune", "--cause", "typo")
    assert [request.body for request in service.requests] == [{"cause": "fan"}, {"cause": "ECC"}, {"cause": "typo"}]


def test_cancelling_a_group(service, gsq):
    items = service.answers["GET", "/queue"][0].body["items"][:2]
    service.set_answers("GET", "/jobs", {"items": items, "next": None})
    for item in items:
        service.set_answers("POST", f"/jobs/{item['id']}/cancel", item | {"state": "cancelled"})
    assert len(gsq("cancel", "--group", "01jgroup").stdout.splitlines()) == 2
    query = service.requests_to("GET", "/jobs")[0].query
    assert query["group"] == ["01jgroup"]
    assert "succeeded" not in query["state"]
    service.set_answers("GET", "/jobs", {"items": [], "next": None})
    assert "has no unfinished jobs" in gsq("cancel", "--group", "other", code=3).stderr
    assert "is missing" in gsq("cancel", code=2).stderr


def test_updates_in_the_apis_words(service, gsq):
    gsq("update", "llama-finetune", "-p", "urgent", "--slo", "p99=20ms,throughput=5", "--estimate", "2h", "--limit",
        "4h", "--memory", "6GiB", "--queue", "q", "--lane", "l", "-n", "x")  # fmt: skip
    assert body(service, "PATCH", "/jobs/llama-finetune") == {
        "priority": "urgent", "slo": {"latency": "20ms", "throughput": 5.0}, "estimate": "2h", "limit": "4h",
        "memory": "6GiB",
        "queue": "q", "lane": "l", "name": "x",
    }  # fmt: skip
    gsq("update", "llama-finetune", "--slo", "none")
    assert body(service, "PATCH", "/jobs/llama-finetune") == {"slo": {}}
    gsq("update", "llama-finetune", "--memory", "30%")
    assert body(service, "PATCH", "/jobs/llama-finetune") == {"memory": "30%"}
    assert "changes nothing" in gsq("update", "llama-finetune", code=2).stderr


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({"memory": 1127 * 2**20}, "changed priority, memory to 1.1 GiB"),
        ({"memory": "30%"}, "changed priority, memory to 30%"),
        ({}, "changed priority, memory"),
    ],
)
def test_an_update_tells_the_amount_that_was_chosen(service, gsq, now, told):
    path = "/jobs/llama-finetune"
    service.set_answers("PATCH", path, canned(1.7e9)["PATCH", path] | now)
    assert gsq("update", "llama-finetune", "-p", "high", "--memory", "peak").stdout.strip().endswith(told)
    answer = json.loads(gsq("update", "llama-finetune", "--memory", "peak", "--json").stdout)
    assert answer.get("memory") == now.get("memory")


def test_notices(service, gsq):
    gsq("notify", "add", "slack://x", "--on", "failed", "-l", "team")
    assert body(service, "POST", "/notices/rules") == {"url": "slack://x", "kinds": ["failed"], "label": "team"}
    gsq("notify", "test", "mailto://x")
    assert body(service, "POST", "/notices/test") == {"url": "mailto://x"}
    service.set_answers("POST", "/notices/test", {"ok": False, "error": "no such channel"})
    assert "no such channel" in gsq("notify", "test", 4, code=5).stderr
    assert body(service, "POST", "/notices/test") == {"rule": 4}


def test_a_service_that_takes_no_work(service, gsq):
    service.fail("GET", "/readyz", 503, "unavailable", "the store does not answer")
    shown = gsq("status", code=5).stdout
    assert "not ready" in shown
    assert "the store does not answer" in shown


def test_usage_over_an_interval(service, gsq):
    shown = gsq("usage", "--by", "user", "--since", "30d").stdout
    query = service.requests[-1].query
    assert query["by"] == ["user"]
    assert 29 < (service.now_s - float(query["since_s"][0])) / 86400 < 31
    assert "1,015.8 GPU hours" in shown
    service.set_answers("GET", "/usage", {"items": [], "next": None})
    assert "0.0 GPU hours" in gsq("usage").stdout


def test_cards_of_other_tenants_have_no_names(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = gsq("nodes", "--cards").stdout
    assert "job of another tenant 50 %" in shown
    assert "pid 4242 (python) of carol" in shown


def test_the_schema_needs_no_service(gsq, monkeypatch, tmp_path):
    monkeypatch.delenv("GPUSQUAD_URL", raising=False)
    monkeypatch.setenv("GPUSQUAD_HOME", str(tmp_path))
    assert "properties" in json.loads(gsq("schema").stdout)


def test_attainment_that_nobody_reports_is_shown_as_unknown(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path = "/cards/0"
    card = canned(1.7e9)["GET", path]
    assert "97.2 %" in gsq("policy", "show", "--card", "0").stdout
    card["now"]["tenants"][0]["attainment_ratio"] = None
    service.set_answers("GET", path, card)
    shown = gsq("policy", "show", "--card", "0").stdout
    assert "unknown" in shown
    assert "97.2 %" not in shown
