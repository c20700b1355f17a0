"""What the whole is for: a large gang gets its promise, small jobs use the time until then, and the promise is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.kubernetes.story import SHORT_JOBS, play
from bench.kubernetes_story import promise_of
from tests.kube.plane import ControlPlane, Settings
from tests.kube.service import serving

pytestmark = pytest.mark.slow


def test_a_gang_behind_a_full_cluster_starts_as_promised_and_small_jobs_before_it(tmp_path: Path):
    with ControlPlane(Settings(fake_nodes=2, gpus_per_node=4)) as plane, serving(plane, tmp_path) as service:
        told = play(plane, "gpusquad", lambda: promise_of(service))
        assert told.promised_s is not None
        assert told.gang_s <= told.promised_s + 1.0, "a second for the API server and the fake kubelet"
        assert told.short_before == SHORT_JOBS, "what is over in time may go first"
        assert told.long_before == 0, "what would delay it waits"
