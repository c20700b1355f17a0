"""The scoreboard: what a bench hands in, and what becomes of it."""

import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from bench import __main__ as command
from bench.claims import claim
from bench.scoreboard import benches, holds, score

KEYS = {"bench", "name", "value", "unit", "better", "bar", "baseline", "ok"}


def fake(name: str, *claims: dict, error: Exception | None = None):
    def run() -> list[dict]:
        if error is not None:
            raise error
        return list(claims)

    return SimpleNamespace(NAME=name, SUMMARY="a fake", run=run)


GOOD = claim("speed", 1234.5, "jobs/s", "higher", bar=1000.0, baseline=900.0)
TOLD = claim("told", 3, "h", "lower")
BAD = claim("slow", 70.0, "s", "lower", bar=60.0)


def test_ok_follows_from_the_bar():
    assert (GOOD["ok"], TOLD["ok"], BAD["ok"]) == (True, None, False)
    assert [holds(one) for one in (GOOD, TOLD, BAD)] == [True, True, False]


def test_the_score_has_claims_and_the_machine():
    result = score([fake("one", GOOD, TOLD), fake("two", BAD)])
    assert [one["bench"] for one in result["claims"]] == ["one", "one", "two"]
    assert all(set(one) == KEYS for one in result["claims"])
    assert {"cpu", "cores", "python"} <= set(result["machine"])
    json.dumps(result)


def test_one_that_breaks_is_a_claim_that_does_not_hold(capsys):
    result = score([fake("broken", error=FileNotFoundError("no trace")), fake("one", GOOD)])
    assert [one["ok"] for one in result["claims"]] == [False, True]
    assert "no trace" in result["claims"][0]["name"]
    command.show(result, Console())


@pytest.mark.parametrize(("claims", "code"), [((GOOD, TOLD), 0), ((GOOD, BAD), 1)])
def test_the_exit_code_says_whether_all_bars_are_cleared(monkeypatch, capsys, claims, code):
    monkeypatch.setattr(command, "benches", lambda: {"one": fake("one", *claims)})
    assert command.main(["run", "--all", "--json"]) == code
    assert len(json.loads(capsys.readouterr().out)["claims"]) == 2
    assert command.main(["run", "one"]) == code
    assert "speed" in capsys.readouterr().out


def test_a_bench_that_is_none(capsys):
    assert command.main(["run", "nope"]) == 2
    assert command.main(["run"]) == 2
    assert "there is no bench 'nope'" in capsys.readouterr().err


def test_all_of_ours_say_what_they_are(capsys):
    found = benches()
    assert {"backfill", "cycle", "lanes", "openb", "sharing", "speed"} <= set(found)
    assert all(module.SUMMARY and callable(module.run) for module in found.values())
    assert command.main(["list"]) == 0
    assert "backfill" in capsys.readouterr().out
