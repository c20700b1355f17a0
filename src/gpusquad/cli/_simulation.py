"""Loads traces and options, and runs simulations."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpusquad.cli._choices import PolicyChoice
from gpusquad.cli._console import progress
from gpusquad.cli._estimates import EstimateSource, Kind, choose_estimates
from gpusquad.core.ports import Event
from gpusquad.core.snapshot.dump import dump_snapshot
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import Cluster, MaintenanceWindow
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import Rate
from gpusquad.model.units import US_PER_S, show_us
from gpusquad.modes import AutomaticMode, Mode
from gpusquad.sim.clusters import load_cluster
from gpusquad.sim.colocation import PairTable, load_pairs
from gpusquad.sim.fill import demand_of
from gpusquad.sim.incidents import load_incidents
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import EventOrder, Scenario, simulate
from gpusquad.sim.slowdown import by_pairs, by_profile, by_workload, save_slowdown
from gpusquad.sim.traces import Trace, TraceJob, read

SHARING = "sharing"
"""Key in the snapshot file for the slowdown of jobs that share a card."""


@dataclass
class SimulationInput:
    """Jobs, cluster and settings of a simulation."""

    path: Path
    trace: Trace
    jobs: Sequence[TraceJob]
    cluster: Cluster
    windows: tuple[MaintenanceWindow, ...]
    incidents: Sequence[tuple[int, Event]] = ()
    rate: Rate | None = None
    pairs: PairTable | None = None
    slowed_by: str = ""
    kind: Kind | None = None
    predictor: str | None = None
    event_order: EventOrder = "batch"
    estimate_sources: dict[str, EstimateSource] = field(default_factory=dict)
    """Source of the run times of each run, by its label."""

    @staticmethod
    def load(path: Path, format: str | None, skip_bad: bool, limit: int | None, cluster: str | None) -> SimulationInput:  # noqa: A002
        trace = read(path, format, skip_bad)
        if cluster is not None:
            there, windows = load_cluster(cluster)
        elif trace.cluster is not None:
            there, windows = trace.cluster, ()
        else:
            raise Invalid("cluster", "is missing", "write --cluster NODESxGPUS, for example 4x8, or name a file")
        return SimulationInput(path, trace, trace.jobs[:limit], there, windows)

    def add_incidents(self, path: Path | None) -> None:
        if path is not None:
            self.incidents = load_incidents(path, self.cluster)

    def slow_by(self, pairs: Path | None, gpu: str) -> None:
        """Set the slowdown model. Only traces with shares need one."""
        if pairs is not None:
            self.pairs = load_pairs(pairs, gpu)
            self.jobs = by_workload(self.jobs)
            self.rate, self.slowed_by = by_pairs(self.pairs), f"pairs measured on {self.pairs.gpu}"
        elif any(trace.job.has_shares for trace in self.jobs):
            self.rate, self.slowed_by = by_profile, "the jobs' profiles"

    def set_estimates(self, kind: Kind | None, predictor: str | None, event_order: EventOrder = "batch") -> None:
        """Options override the mode."""
        self.kind, self.predictor, self.event_order = kind, predictor, event_order

    @property
    def estimates(self) -> tuple[str, str]:
        """Kind of run times used, and why."""
        kinds = {(source.kind, source.why) for source in self.estimate_sources.values()}
        if len(kinds) == 1:
            return kinds.pop()
        return "mixed", "; ".join(f"{label}: {b.kind}, {b.why}" for label, b in self.estimate_sources.items())

    def source_for(self, choice: PolicyChoice) -> EstimateSource:
        """Source of the run times for this choice."""
        is_reference = self.event_order == "reference"
        return choose_estimates(self.kind, self.predictor, self.jobs, choice.mode, is_reference)


@dataclass
class SnapshotRequest:
    """Request for a snapshot of the state before the first decision at or after ``at_us``."""

    path: Path
    at_us: int
    taken: bool = False

    @staticmethod
    def from_options(path: Path | None, at_s: float | None, compare: str | None) -> SnapshotRequest | None:
        if path is None and at_s is None:
            return None
        if path is None or at_s is None:
            raise Invalid("dump", "needs both a file and a time", "write --dump FILE --dump-at SECONDS")
        if not (math.isfinite(at_s) and 0 <= at_s < 2**43):
            raise Invalid("dump-at", f"{at_s} is not a time", "give seconds since the start of the trace")
        if compare is not None:
            raise Invalid("dump", "cannot be combined with --compare", "leave out one of them")
        return SnapshotRequest(path, round(at_s * US_PER_S))

    def take(self, state: SchedulerState, now_us: int, work: SimulationInput) -> None:
        if self.taken or now_us < self.at_us:
            return
        self.taken = True
        state.now_us = now_us
        saved = dump_snapshot(state)
        if work.rate is not None:
            here = [trace.job for trace in work.jobs if trace.job.id in state.queue or trace.job.id in state.runs]
            saved[SHARING] = save_slowdown(work.pairs, here)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(saved), encoding="utf-8")


def run(
    work: SimulationInput, choices: Sequence[PolicyChoice], event_order: EventOrder, snapshot: SnapshotRequest | None
) -> list[SimulationResult]:
    """Simulate each choice with the same jobs."""
    # Resolve all before the first run, so that a wrong name fails at once.
    work.estimate_sources = {choice.label: work.source_for(choice) for choice in choices}
    results = [_run_one(work, choice, event_order, snapshot) for choice in choices]
    if snapshot is not None and not snapshot.taken:
        last_s = max(results[0].samples.at_us, default=0) / US_PER_S
        raise Invalid(
            "dump-at", f"is after the last decision ({show_us(snapshot.at_us)})", f"choose at most {last_s:.0f}"
        )
    return results


def _run_one(
    work: SimulationInput, choice: PolicyChoice, event_order: EventOrder, snapshot: SnapshotRequest | None
) -> SimulationResult:
    source = work.estimate_sources[choice.label]
    feed = source.feed() if source.kind == "predict" else None
    automatic = _automatic(work, choice, feed) if choice.mode.rules is not None else None
    scenario = Scenario(
        cluster=work.cluster, jobs=work.jobs, **(feed or source).parts(), label=choice.label, choose=automatic,
        policies=replace(choice.policies, demand=tuple(demand_of(trace.job for trace in work.jobs))),
        windows=work.windows, rate=work.rate, incidents=work.incidents, event_order=event_order,
        before_cycle=(lambda state, now_us: snapshot.take(state, now_us, work)) if snapshot else None,
    )  # fmt: skip
    with progress(choice.label, len(work.jobs)) as advance:
        result = simulate(scenario, advance)
    result.skipped_lines = work.trace.skipped_count
    result.modes = [(one.at_us, one.mode, one.why) for one in automatic.chosen] if automatic is not None else []
    return result


def _automatic(work: SimulationInput, choice: PolicyChoice, feed: PredictorFeed | None) -> AutomaticMode:
    demand = tuple(demand_of(trace.job for trace in work.jobs))

    def use_quantiles(mode: Mode) -> None:
        if feed is not None:
            feed.uses = mode.uses

    return AutomaticMode(choice.mode, lambda mode: replace(choice.policies_of(mode), demand=demand), use_quantiles)
