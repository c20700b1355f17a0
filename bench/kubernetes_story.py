"""A gang for the whole cluster behind running jobs while small jobs keep arriving: gpusquad and kube-scheduler.

Real control plane with fake nodes, whose pods end after the time in their annotation. kube-scheduler reads the same
native PodGroup and binds the gang as a whole. It does not know when cards become free, so it neither reserves them for
the gang nor backfills.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench._pages import keep
from bench.claims import claim
from bench.kubernetes.story import StoryResult, play
from gpusquad.app.service import Service
from gpusquad.model.units import US_PER_S
from tests.kube.plane import ControlPlane, Settings
from tests.kube.service import serving

NAME = "kubernetes-story"
SUMMARY = "start of a gang of eight behind a full cluster while small jobs keep arriving, and with kube-scheduler"
SLOW = True


def run() -> list[dict]:
    with ControlPlane(Settings(fake_nodes=2, gpus_per_node=4, scheduler=True)) as plane:
        theirs = play(plane, "default-scheduler")
    with (
        tempfile.TemporaryDirectory() as home,
        ControlPlane(Settings(fake_nodes=2, gpus_per_node=4)) as plane,
        serving(plane, Path(home)) as service,
    ):
        ours = play(plane, "gpusquad", lambda: promise_of(service))
    keep(NAME, [{"scheduler": "kube-scheduler", **vars(theirs)}, {"scheduler": "gpusquad", **vars(ours)}])
    assert ours.promised_s is not None
    return [
        claim("gang starts after", ours.gang_s, "s", "lower", bar=ours.promised_s + 1.0, baseline=theirs.gang_s),
        claim("promised within", ours.promised_s, "s", "lower"),
        *_small_jobs(ours, theirs),
    ]


def _small_jobs(ours: StoryResult, theirs: StoryResult) -> list[dict]:
    return [
        claim("small jobs before it that are over in time", ours.short_before, "", "higher",
              baseline=theirs.short_before),
        claim("small jobs before it that delay it", ours.long_before, "", "lower", bar=0, baseline=theirs.long_before),
    ]  # fmt: skip


def promise_of(service: Service, timeout_s: float = 30.0) -> float:
    """Seconds from now until the reserved start of the gang."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        gang = next((row for row in service.scheduler.queries.unfinished() if row.gpus == 8), None)
        when = None if gang is None else service.scheduler.queries.when(gang.id)
        if when is not None and when.promised_us is not None:
            return (when.promised_us - service.clock.now_us()) / US_PER_S
        time.sleep(0.02)
    raise TimeoutError("the gang was promised nothing")
