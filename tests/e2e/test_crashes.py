"""Killed again and again, a service loses nothing and starts nothing twice. ``bench run crashes`` does it 200 times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.crash.trial import Trial, summary

pytestmark = pytest.mark.slow
LIVES = int(os.environ.get("GPUSQUAD_LIVES", "13"))
"""One for each point at which it can be killed."""


def test_nothing_is_lost_and_nothing_runs_twice(tmp_path: Path, blank_url: str) -> None:
    trial = Trial(tmp_path / "home", blank_url, seed=3)
    try:
        tally = trial.run(LIVES)
    finally:
        trial.service.end()
    assert tally.is_clean, summary(tally)
    assert tally.injections == LIVES
    assert tally.submitted > LIVES
