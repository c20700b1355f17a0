"""Test of repeated crashes: no job is lost or started twice. ``bench run crashes`` injects 200 crashes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.crash.trial import Trial, summary

pytestmark = pytest.mark.slow
CRASHES = int(os.environ.get("GPUSQUAD_LIVES", "13"))
"""Number of crashes. The default is one for each point at which the service can be killed."""


def test_no_job_is_lost_or_run_twice_over_crashes(tmp_path: Path, blank_url: str) -> None:
    trial = Trial(tmp_path / "home", blank_url, seed=3)
    try:
        tally = trial.run(CRASHES)
    finally:
        trial.service.end()
    assert tally.is_clean, summary(tally)
    assert tally.injections == CRASHES
    assert tally.submitted > CRASHES
