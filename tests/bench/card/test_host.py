"""Tests of host effects on a bench: stolen CPU time and late wakes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bench.card.__main__ import main
from bench.card.host import stolen_ms

STAT = "cpu  100 0 50 9000 1 0 2 {stolen} 0 0\ncpu0 100 0 50 9000 1 0 2 {stolen} 0 0\nctxt 1\n"


def test_stolen_time_is_read_from_the_sum_of_all_processors(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(STAT.format(stolen=3 * os.sysconf("SC_CLK_TCK")))
    assert stolen_ms(stat) == 3000


def test_naps_command_reports_polls_of_both_waits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["naps", "--seconds", "0.2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["spin"]["looks"] > 0
    assert found["nap"]["looks"] > 0
    assert found["nap"]["longest_us"] >= 20
    assert main(["naps", "--seconds", "0.1"]) == 0
    assert "| nap |" in capsys.readouterr().out
