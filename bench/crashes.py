"""Two hundred times killed: service, supervisors, tasks and agent, at every transition; nothing lost, nothing twice."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from rich.progress import Progress

from bench.claims import claim
from bench.crash.trial import Trial, summary

NAME = "crashes"
SUMMARY = "kill -9 at every transition: jobs lost, attempts started twice"
INJECTIONS = int(os.environ.get("GPUSQUAD_INJECTIONS", "200"))


def run() -> list[dict]:
    with tempfile.TemporaryDirectory() as folder, Progress() as progress:
        trial = Trial(Path(folder), seed=7)
        bar = progress.add_task("lives", total=INJECTIONS)
        try:
            tally = trial.run(INJECTIONS, lambda done, of: progress.update(bar, completed=done))
        finally:
            trial.service.end()
        progress.console.print(summary(tally))
    return [
        claim("kill -9 injected", tally.injections, "times", "higher", bar=INJECTIONS),
        claim("jobs submitted meanwhile", tally.submitted, "jobs", "higher"),
        claim("jobs lost or never ended", len(tally.lost) + len(tally.unfinished), "jobs", "lower", bar=0),
        claim("attempts started twice, or at once", len(tally.started_twice) + len(tally.overlaps), "times", "lower",
              bar=0),
        claim("succeeded without every task's end", len(tally.unproven), "tasks", "lower", bar=0),
    ]  # fmt: skip
