"""Test of reservation and backfill: a large gang starts as reserved, and short jobs run before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.kubernetes.story import SHORT_JOBS, play
from bench.kubernetes_story import promise_of
from tests.kube.plane import ControlPlane, Settings
from tests.kube.service import serving

pytestmark = pytest.mark.slow


def test_gang_starts_as_reserved_and_short_jobs_are_backfilled(tmp_path: Path):
    with ControlPlane(Settings(fake_nodes=2, gpus_per_node=4)) as plane, serving(plane, tmp_path) as service:
        result = play(plane, "gpusquad", lambda: promise_of(service))
        assert result.promised_s is not None
        assert result.gang_s <= result.promised_s + 1.0, (
            "the gang started later than reserved (with one second for the API server and the fake kubelet)"
        )
        assert result.short_before == SHORT_JOBS, "a short job was not backfilled"
        assert result.long_before == 0, "a job that delays the gang was backfilled"
