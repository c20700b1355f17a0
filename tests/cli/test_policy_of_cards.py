"""``gpusquad policy --card``: how cards are divided."""

from __future__ import annotations

import json
import re

import pytest

from tests.canned.jobs import HOSTILE


def bodies(service, *paths: str) -> list[dict]:
    return [service.requests_to("PUT", path)[-1].body for path in paths]


def test_one_card_in_the_apis_words(service, gsq):
    told = gsq("policy", "set", "--card", "0", "slo", "--note", "demo").stdout
    assert told == "n0/0: divide policy slo\n"
    assert bodies(service, "/cards/0/divide") == [{"policy": "slo", "note": "demo"}]
    assert service.requests_to("PUT", "/policy") == []


def test_all_cards(service, gsq):
    gsq("policy", "set", "--card", "all", "hybrid:alpha=0.5")
    assert (
        bodies(service, "/cards/n0%2F0/divide", "/cards/n0%2F1/divide")
        == [{"policy": "hybrid:alpha=0.5", "note": ""}] * 2
    )


def test_policy_that_the_service_stores_under_another_name_is_warned_about_once(service, gsq):
    for card in ("n0%2F0", "n0%2F1"):
        answer = service.answers["PUT", f"/cards/{card}/divide"][0].body
        stored = answer["divide"] | {"policy": "guaranteed:squad_us=3000"}
        service.set_answers("PUT", f"/cards/{card}/divide", answer | {"divide": stored})
    done = gsq("policy", "set", "--card", "all", "promised:squad_us=3000")
    assert done.stderr == "warning: divide policy promised is deprecated and was stored as guaranteed; use guaranteed\n"
    assert done.stdout.count("divide policy guaranteed:squad_us=3000") == 2
    assert gsq("policy", "set", "--card", "all", "guaranteed").stderr == ""


def test_back_to_the_mode(service, gsq):
    gsq("policy", "set", "-c", "0", "-c", "n0/1", "--reset")
    assert bodies(service, "/cards/0/divide", "/cards/n0%2F1/divide") == [{"policy": None, "note": ""}] * 2


def test_one_that_fails_does_not_keep_the_others(service, gsq):
    service.fail("PUT", "/cards/9/divide", 404, "not_found", "there is no card '9'")
    done = gsq("policy", "set", "-c", "9", "-c", "0", "slo", "--json", code=3)
    assert [one["id"] for one in json.loads(done.stdout)["items"]] == ["n0/0"]
    assert "there is no card '9'" in done.stderr


def test_what_has_no_effect_yet_is_said(service, gsq):
    answer = service.answers["PUT", "/cards/0/divide"][0].body
    kept = answer["divide"] | {"effect": "kept", "message": "stored; takes effect where shares are enforced"}
    service.set_answers("PUT", "/cards/0/divide", answer | {"divide": kept})
    assert "slo; stored; takes effect where" in gsq("policy", "set", "--card", "0", "slo").stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--card", "0"), "name one listed by"),
        (("--card", "0", "slo", "--reset"), "combined with --reset"),
        (("--reset",), "--card all"),
        (("--card", "0", "slo", "--order", "las"), "leave out --card"),
        (("--card", "", "slo"), "card: is empty"),
        (("--card", "0", "--card", " ", "slo"), "card: is empty"),
    ],
)
def test_what_makes_no_sense(service, gsq, words, told):
    assert told in gsq("policy", "set", *words, code=2).stderr
    assert service.requests == []


def test_cards_that_differ_are_shown_with_the_policy(service, gsq):
    shown = gsq("policy", "show").stdout
    assert "n0/0" in shown
    assert "n0/1" not in shown
    listed = service.answers["GET", "/cards"][0].body
    service.set_answers("GET", "/cards", listed | {"items": listed["items"][1:]})
    assert "Cards with their own divide policy" not in gsq("policy").stdout


def test_a_card_with_its_tenants(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    shown = gsq("policy", "show", "--card", "0").stdout
    for told in ("divide policy slo", "instead of the mode's jct", "1 min ago by root", "semi-spatial", "is at risk",
                 "2 processes outside gpusquad's control: 4242", "33 %", "0.4 ms", "10.0/20.0 GiB", "12.0 GiB",
                 "97.2 %",
                 "2.47", "latency 20 ms", "1 process waiting", "isolated", "job of another tenant", "idle",
                 "526 MiB of the memory quota per process"):  # fmt: skip
        assert told in shown, told
    assert HOSTILE not in shown


def test_several_cards_as_json(service, gsq):
    one = json.loads(gsq("policy", "show", "--card", "0", "--json").stdout)
    every = json.loads(gsq("policy", "show", "--card", "all", "--json").stdout)
    assert every["items"][0] == one
    assert len(every["items"]) == 2


def test_json_has_unmanaged_processes_under_their_old_name_too(service, gsq):
    now = json.loads(gsq("policy", "show", "--card", "0", "--json").stdout)["now"]
    assert [process["pid"] for process in now["unmanaged"]] == [4242]
    assert (now["unmanaged_count"], now["unmanaged"]) == (now["stranger_count"], now["strangers"])


def test_history_of_a_card(service, gsq):
    assert "from the mode" in gsq("policy", "history", "--card", "0").stdout
    service.set_answers("GET", "/cards/0/divide/revisions", {"items": [], "next": None})
    assert "no changes so far" in gsq("policy", "history", "--card", "0").stdout


def test_history_of_all_cards_has_each_change_once(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    of_first = service.answers["GET", "/cards/0/divide/revisions"][0].body
    later = of_first["items"][0] | {"revision": 99, "card": "n0/1", "policy": "jct", "note": ""}
    service.set_answers("GET", "/cards/n0%2F0/divide/revisions", of_first)
    service.set_answers("GET", "/cards/n0%2F1/divide/revisions", of_first | {"items": [later, *of_first["items"]]})
    numbers = [one["revision"] for one in json.loads(gsq("policy", "history", "-c", "all", "--json").stdout)["items"]]
    assert numbers == [99, *(one["revision"] for one in of_first["items"])]
    shown = gsq("policy", "history", "--card", "all", "--limit", "1").stdout
    assert "CARD" in shown
    assert "n0/1" in shown
    assert "n0/0" not in shown, "one change was asked for"
    assert "card: is empty" in gsq("policy", "history", "--card", "", code=2).stderr


def test_small_parts_and_other_goals(service, gsq, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    card = service.answers["GET", "/cards/0"][0].body
    tenant = card["now"]["tenants"][0]
    tenant |= {"quota_bytes": 512 << 20, "used_bytes": 100 << 20, "sm_ratio": None, "note": "no MPS here",
               "slo": {"throughput_per_s": 50.0, "availability_ratio": 0.99, "deadline_us": 7}}  # fmt: skip
    card["now"] |= {"tenants": [tenant, tenant], "failure": "ValueError: x", "unmanaged_count": 0}
    service.set_answers("GET", "/cards/0", card)
    shown = gsq("policy", "show", "--card", "0").stdout
    for told in ("100/512 MiB", "5 groups", "throughput 50/s", "availability 99 %", "deadline_us 7", "ValueError: x"):
        assert told in shown, told
    assert shown.count("no MPS here") == 1
    tenant["groups"] = 1
    assert re.search(r"\b1 group\b", gsq("policy", "show", "--card", "0").stdout)
    assert "outside gpusquad's control" not in shown
