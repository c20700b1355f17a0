"""Virtual time: events in order, a scheduling cycle after each instant."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gpusquad.core.driver import Driver
from gpusquad.core.ports import CardChanged, Event, GangEnded, JobSubmitted, PoliciesChanged, RunTimePredicted
from gpusquad.core.state.policies import Policies
from gpusquad.core.state.state import UNKNOWN, SchedulerState
from gpusquad.model.cluster import Cluster, MaintenanceWindow
from gpusquad.model.decision import Decision, Start
from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.engine import SimEngine
from gpusquad.sim.outcome import ClusterSamples, Outcome, SimulationResult
from gpusquad.sim.traces import TraceJob

EventOrder = Literal["batch", "reference"]
Progress = Callable[[int, int], None]
Predict = Callable[[TraceJob], RunTimePrediction]


@dataclass
class Scenario:
    """Input of a simulation."""

    cluster: Cluster
    jobs: Sequence[TraceJob]
    policies: Policies
    forecast: Predict
    label: str = ""
    windows: tuple[MaintenanceWindow, ...] = ()
    rate: Rate | None = None
    """Actual slowdown of jobs that share a card. None: no slowdown."""
    belief: Rate | None = None
    """Slowdown that the scheduler assumes. None: it knows the actual one."""
    incidents: Sequence[tuple[int, Event]] = ()
    """Failures and recoveries of cards and nodes, with their times."""
    suspends: bool = False
    """Whether a preempted gang is suspended and loses no work."""
    event_order: EventOrder = "batch"
    """Order of events at one instant.

    batch: ends, then incidents, then submissions, then one cycle. reference: cards of jobs predicted to end right now
    count as free; submissions in file order, then ends in start order, one cycle each.
    """
    learn: Callable[[PastRun], None] | None = None
    """Called with each run that ended, also if it was cut short."""
    begin: Callable[[Job, int], None] | None = None
    """Called with each job that starts, and its start time."""
    anew: Callable[[PastRun], Iterable[tuple[str, RunTimePrediction]]] | None = None
    """Called after each end; returns new predictions of pending jobs."""
    again: Callable[[Job], None] | None = None
    """Called with each job that is requeued after its run was cut short."""
    before_cycle: Callable[[SchedulerState, int], None] | None = None
    """Called with the state after all events of an instant and before the cycle. Snapshots are taken here."""
    on_cycle: Callable[[SchedulerState, int], None] | None = None
    choose: Callable[[SchedulerState, int], tuple[Policies, str] | None] | None = None
    """Called before each cycle. Returns the policies from now on and why, or None: unchanged. Pending jobs are then
    predicted again, because other policies may use other quantiles."""
    names: dict[str, str] = field(default_factory=dict)


def exact(trace: TraceJob) -> RunTimePrediction:
    """The actual run time, as if it were known."""
    return RunTimePrediction(trace.run_us, trace.run_us, "exact")


def user(trace: TraceJob) -> RunTimePrediction:
    """The user's estimate; none if the user gave none."""
    estimate_us = trace.job.estimate_us
    return UNKNOWN if estimate_us is None else RunTimePrediction(estimate_us, estimate_us, "user")


def simulate(scenario: Scenario, progress: Progress | None = None) -> SimulationResult:
    """Run a scenario to its end."""
    was_enabled = gc.isenabled()
    gc.disable()  # The simulator creates no reference cycles; collecting garbage would cost a tenth of the run time.
    try:
        return _Simulation(scenario, progress).run()
    finally:
        if was_enabled:
            gc.enable()


class _Simulation:
    def __init__(self, scenario: Scenario, progress: Progress | None) -> None:
        self.scenario = scenario
        self.progress = progress
        jobs = sorted(scenario.jobs, key=lambda t: t.job.submitted_us)
        self.arrivals = jobs
        self.next_arrival = 0
        self.incidents = sorted(scenario.incidents, key=lambda pair: pair[0])
        self.next_incident = 0
        self.outcomes = {t.job.id: Outcome(t.job, t.run_us) for t in scenario.jobs}
        self.traces = {t.job.id: t for t in scenario.jobs}
        believed = scenario.rate if scenario.belief is None else scenario.belief
        state = SchedulerState(scenario.cluster, scenario.policies, scenario.windows, believed)
        fixed = state.space.fixed
        gpu_models = [fixed.models[model] for model in fixed.card_model.tolist()]
        self.engine = SimEngine(self.traces, self.outcomes, scenario.rate, gpu_models, scenario.suspends)
        state.suspends = scenario.suspends
        if scenario.incidents:
            self.engine.track_cards()
        self.driver = Driver(state, self.engine.carry_out)
        self.samples = ClusterSamples()
        self.done = 0

    @property
    def state(self) -> SchedulerState:
        """The driver's: a change of policies replaces it."""
        return self.driver.state

    def run(self) -> SimulationResult:
        began = time.perf_counter()
        step = self._reference_instant if self.scenario.event_order == "reference" else self._batch_instant
        while (now_us := self._next_instant()) is not None:
            step(now_us)
            self._sample(now_us)
        return self._result(time.perf_counter() - began)

    def _next_instant(self) -> int | None:
        times = []
        if self.next_arrival < len(self.arrivals):
            times.append(self.arrivals[self.next_arrival].job.submitted_us)
        if self.next_incident < len(self.incidents):
            times.append(self.incidents[self.next_incident][0])
        end_us = self.engine.next_end_us()
        if end_us is not None:
            times.append(end_us)
        if not times and not (len(self.state.queue) and self.state.runs.ends):
            return self._last_chance()
        if len(self.state.queue) or self.state.runs.limits:
            times.append(self.driver.next_wake_us())
        return max(min(times), self.state.now_us)

    def _last_chance(self) -> int | None:
        """Nothing runs and nothing arrives: only the end of a maintenance window can let a job start."""
        if not len(self.state.queue):
            return None
        later = [w.end_us for w in self.state.timeline.windows if w.end_us and w.end_us > self.state.now_us]
        return min(later, default=None)

    def _batch_instant(self, now_us: int) -> None:
        for job_id in self.engine.due(now_us):
            self._end(job_id, now_us)
        self._apply_incidents(now_us)
        self._apply_immediate(now_us)
        while self._arrives_at(now_us):
            self._submit(now_us)
        self._decide(now_us)

    def _reference_instant(self, now_us: int) -> None:
        due = self.engine.due(now_us)
        early = {job_id for job_id in due if self.state.runs[job_id].end_us == now_us}
        for job_id in due:
            if job_id in early:
                self._end(job_id, now_us)
        self._apply_incidents(now_us)
        acted = False
        while self._arrives_at(now_us):
            self._submit(now_us)
            self._decide(now_us)
            acted = True
        for job_id in due:
            if job_id not in early and self.engine.ends_at(job_id, now_us):  # lost or preempted at this instant?
                self._end(job_id, now_us)
            self._decide(now_us)
            acted = True
        if not acted:
            self._decide(now_us)

    def _choose_policies(self, now_us: int) -> None:
        chosen = self.scenario.choose(self.state, now_us) if self.scenario.choose else None
        if chosen is None:
            return
        self.driver.apply(now_us, PoliciesChanged(*chosen))
        for waiting in list(self.state.queue):
            if waiting.attempt == 0:
                self.driver.apply(
                    now_us, RunTimePredicted(waiting.job.id, self.scenario.forecast(self.traces[waiting.job.id]))
                )

    def _decide(self, now_us: int) -> None:
        self._choose_policies(now_us)
        if self.scenario.before_cycle:
            self.scenario.before_cycle(self.state, now_us)
        self._tell_starts(self.driver.decide(now_us), now_us)
        while self.engine.immediate:
            self._apply_immediate(now_us)
            self._tell_starts(self.driver.decide(now_us), now_us)
        if self.scenario.on_cycle:
            self.scenario.on_cycle(self.state, now_us)

    def _tell_starts(self, decisions: Sequence[Decision], now_us: int) -> None:
        if self.scenario.begin:
            for decision in decisions:
                if isinstance(decision, Start):
                    self.scenario.begin(self.traces[decision.job_id].job, now_us)

    def _apply_immediate(self, now_us: int) -> None:
        events, self.engine.immediate = self.engine.immediate, []
        for event in events:
            if isinstance(event, GangEnded):
                self._ended(event, now_us)
            else:
                self.driver.apply(now_us, event)

    def _arrives_at(self, now_us: int) -> bool:
        return self.next_arrival < len(self.arrivals) and self.arrivals[self.next_arrival].job.submitted_us <= now_us

    def _submit(self, now_us: int) -> None:
        trace = self.arrivals[self.next_arrival]
        self.next_arrival += 1
        self.driver.apply(now_us, JobSubmitted(trace.job, self.scenario.forecast(trace)))

    def _end(self, job_id: str, now_us: int) -> None:
        self._ended(self.engine.end(job_id, now_us), now_us)
        self.done += 1
        if self.progress and self.done % 1000 == 0:
            self.progress(self.done, len(self.arrivals))

    def _ended(self, event: GangEnded, now_us: int) -> None:
        """The predictor learns the work done since the first start, as in the service."""
        run = self.state.runs[event.job_id]
        how = "failed" if event.how == "held" else event.how
        past = PastRun(run.job, max(1, run.kept_us + now_us - run.started_us), now_us, how)
        self.driver.apply(now_us, event)
        if self.scenario.learn:
            self.scenario.learn(past)
        if self.scenario.anew:
            for waiting_id, forecast in self.scenario.anew(past):
                self.driver.apply(now_us, RunTimePredicted(waiting_id, forecast))
        if self.scenario.again and event.how in ("preempted", "lost"):
            self.scenario.again(run.job)

    def _apply_incidents(self, now_us: int) -> None:
        while self.next_incident < len(self.incidents) and self.incidents[self.next_incident][0] <= now_us:
            _, event = self.incidents[self.next_incident]
            self.next_incident += 1
            if isinstance(event, CardChanged) and not event.ok:
                self._end_those_on(event.card_id, now_us)
            self.driver.apply(now_us, event)

    def _end_those_on(self, card_id: str, now_us: int) -> None:
        """A lost card ends the gangs on it. They are requeued with their original submit time."""
        card = self.state.space.fixed.card_index[card_id]
        for job_id in dict.fromkeys(self.engine.on_card(card)):
            self._ended(self.engine.interrupt(job_id, now_us, "lost"), now_us)

    def _sample(self, now_us: int) -> None:
        samples = self.samples
        queued = len(self.state.queue)
        idle = self.state.space.idle_total if queued else 0
        if samples.at_us and samples.at_us[-1] == now_us:
            samples.queued[-1], samples.busy_milli[-1], samples.stranded[-1] = queued, self.engine.busy_milli, idle
            return
        samples.at_us.append(now_us)
        samples.queued.append(queued)
        samples.busy_milli.append(self.engine.busy_milli)
        samples.stranded.append(idle)

    def _result(self, wall_s: float) -> SimulationResult:
        first = self.state.first_reserved_us
        late: dict[str, int] = {}
        for job_id, promised_us in first.items():
            outcome = self.outcomes[job_id]
            outcome.promised_us = promised_us
            if outcome.started_us is not None:
                late[job_id] = max(0, outcome.started_us - promised_us)
        for job_id in self.engine.working():
            self.outcomes[job_id].spans[-1].ended_us = self.state.now_us
        scenario = self.scenario
        return SimulationResult(
            label=scenario.label, policies=scenario.names or scenario.policies.names, cluster=scenario.cluster,
            outcomes=[self.outcomes[t.job.id] for t in scenario.jobs], samples=self.samples, cycles=self.driver.cycles,
            wall_s=wall_s, moved_reservations=list(self.state.delayed_starts), late_us=late,
            head_delay_us=dict(self.driver.head_delays.settled),
        )  # fmt: skip
