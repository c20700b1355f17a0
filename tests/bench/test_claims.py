"""Tests of the scoreboard: claims, their bars and the exit code."""

import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from bench import __main__ as command
from bench.claims import claim
from bench.scoreboard import benches, holds, score

KEYS = {"bench", "name", "value", "unit", "better", "bar", "baseline", "ok"}


def fake_bench(name: str, *claims: dict, error: Exception | None = None):
    def run() -> list[dict]:
        if error is not None:
            raise error
        return list(claims)

    return SimpleNamespace(NAME=name, SUMMARY="a fake", run=run)


GOOD = claim("speed", 1234.5, "jobs/s", "higher", bar=1000.0, baseline=900.0)
WITHOUT_BAR = claim("told", 3, "h", "lower")
BAD = claim("slow", 70.0, "s", "lower", bar=60.0)


def test_claim_is_ok_when_its_bar_is_met():
    assert (GOOD["ok"], WITHOUT_BAR["ok"], BAD["ok"]) == (True, None, False)
    assert [holds(item) for item in (GOOD, WITHOUT_BAR, BAD)] == [True, True, False]


def test_score_has_claims_and_the_machine():
    result = score([fake_bench("one", GOOD, WITHOUT_BAR), fake_bench("two", BAD)])
    assert [item["bench"] for item in result["claims"]] == ["one", "one", "two"]
    assert all(set(item) == KEYS for item in result["claims"])
    assert {"cpu", "cores", "python"} <= set(result["machine"])
    json.dumps(result)


def test_failing_bench_gives_a_claim_that_does_not_hold(capsys):
    result = score([fake_bench("broken", error=FileNotFoundError("no trace")), fake_bench("one", GOOD)])
    assert [item["ok"] for item in result["claims"]] == [False, True]
    assert "no trace" in result["claims"][0]["name"]
    command.show(result, Console())


@pytest.mark.parametrize(("claims", "code"), [((GOOD, WITHOUT_BAR), 0), ((GOOD, BAD), 1)])
def test_exit_code_is_zero_only_when_all_bars_are_met(monkeypatch, capsys, claims, code):
    monkeypatch.setattr(command, "benches", lambda: {"one": fake_bench("one", *claims)})
    assert command.main(["run", "--all", "--json"]) == code
    assert len(json.loads(capsys.readouterr().out)["claims"]) == 2
    assert command.main(["run", "one"]) == code
    assert "speed" in capsys.readouterr().out


def test_unknown_bench_is_refused(capsys):
    assert command.main(["run", "nope"]) == 2
    assert command.main(["run"]) == 2
    assert "there is no bench 'nope'" in capsys.readouterr().err


def test_every_bench_has_a_summary_and_is_listed(capsys):
    found = benches()
    assert {"backfill", "cycle", "lanes", "openb", "sharing", "speed"} <= set(found)
    assert all(module.SUMMARY and callable(module.run) for module in found.values())
    assert command.main(["list"]) == 0
    assert "backfill" in capsys.readouterr().out
