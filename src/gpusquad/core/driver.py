"""Body of the event loop: events change the state, a cycle decides, the sink carries out its decisions.

The service and the simulator call the same two methods. They differ only in the source of events and time, and in the
sink. The driver knows which jobs are pending and which run. The state of a job in the sense of ``transitions`` is kept
by its owner: in the service by the rows of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpusquad.core.cycle import cycle
from gpusquad.core.explain.feasibility import refusal
from gpusquad.core.explain.head_delay import HeadDelays
from gpusquad.core.planning.elastic import apply_shrink
from gpusquad.core.planning.outage import next_opening_us
from gpusquad.core.planning.preemption import next_overstay_us, next_reclaim_us, next_victim_us
from gpusquad.core.ports import (
    CardChanged,
    CarryOut,
    ClusterChanged,
    EndPredicted,
    Event,
    ForeignUsageChanged,
    GangAdopted,
    GangEnded,
    GangResized,
    GangSlowed,
    GangStopping,
    JobCancelled,
    JobSubmitted,
    JobUpdated,
    NodeChanged,
    NodeSetsChanged,
    PoliciesChanged,
    RunTimePredicted,
    WindowsChanged,
)
from gpusquad.core.state.live_updates import adopt, update, update_predicted_end, with_cluster, with_policies
from gpusquad.core.state.runs import NEVER_US
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.transitions import WrongTransition
from gpusquad.model.decision import Decision, Refuse, Start

_CAPACITY_EVENTS = (CardChanged, NodeChanged, ClusterChanged, NodeSetsChanged, ForeignUsageChanged, PoliciesChanged,
                    WindowsChanged)  # fmt: skip


class Driver:
    """Passes events to the state and decisions to the sink ``carry_out``."""

    def __init__(self, state: SchedulerState, carry_out: CarryOut) -> None:
        self.state = state
        self.cycles = 0
        self.head_delays = HeadDelays()
        self._carry_out = carry_out
        self._refused: list[Refuse] = []
        self._handlers: dict[type, Callable] = {
            JobSubmitted: self._submitted,
            GangAdopted: self._adopted,
            GangStopping: self._stopping,
            GangEnded: self._ended,
            JobUpdated: self._updated,
            GangSlowed: self._slowed,
            EndPredicted: self._end_predicted,
            RunTimePredicted: self._run_time_predicted,
            GangResized: self._resized,
            CardChanged: self._card_changed,
            NodeChanged: self._node_changed,
            ClusterChanged: self._cluster_changed,
            NodeSetsChanged: self._node_sets_changed,
            ForeignUsageChanged: self._foreign_usage_changed,
            JobCancelled: self._cancelled,
            PoliciesChanged: self._policies_changed,
            WindowsChanged: self._windows_changed,
        }

    def apply(self, now_us: int, event: Event) -> None:
        """Apply an event to the state. The next ``decide`` reacts to it."""
        self.state.now_us = now_us
        self._handlers[type(event)](event)
        if isinstance(event, _CAPACITY_EVENTS):
            self.head_delays.interrupt()

    def decide(self, now_us: int) -> Sequence[Decision]:
        """Run a cycle and pass its decisions to the sink, also if there are none."""
        self.cycles += 1
        decisions = cycle(self.state, now_us)
        self.head_delays.after_cycle(self.state, {d.job_id for d in decisions if isinstance(d, Start)})
        if self._refused:
            decisions = [*self._refused, *decisions]
            self._refused = []
        self._carry_out(now_us, decisions)
        return decisions

    def next_wake_us(self) -> int:
        """When to decide again without an event: a predicted end, a time limit, a preemption that becomes possible or a
        window."""
        state = self.state
        limits = (at_us for at_us, _, job_id in state.runs.limits if not state.runs[job_id].leaving)
        wake = next(limits, NEVER_US)
        if len(state.queue):
            if state.runs.ends:
                wake = min(wake, state.runs.ends[0][0] + 1)
            wake = min(wake, next_reclaim_us(state), next_victim_us(state), next_overstay_us(state))
            wake = min(wake, next_opening_us(state, state.decided_us))
            for window in state.timeline.windows:
                for at_us in (window.start_us, window.end_us):
                    if at_us is not None and at_us > state.now_us:
                        wake = min(wake, at_us)
        return wake

    def forget(self, job_id: str) -> None:
        """Drop what is kept of a finished job."""
        self.state.forget(job_id)

    def _submitted(self, event: JobSubmitted) -> None:
        job = event.job
        self._must_be_unknown(job.id)
        reason = refusal(self.state, job, comes_back=event.past.sequence is not None)
        if reason is not None:
            self._refused.append(Refuse(job.id, reason))
            return
        past = event.past
        self.state.enqueue(job, event.prediction, attempt=past.attempt, kept_us=past.kept_us,
                           served_gpu_us=past.served_gpu_us, preemptions=past.preemptions,
                           sequence=past.sequence)  # fmt: skip

    def _adopted(self, event: GangAdopted) -> None:
        self._must_be_unknown(event.job.id)
        adopt(self.state, event)
        self.head_delays.resume()

    def _must_be_unknown(self, job_id: str) -> None:
        if job_id in self.state.queue or job_id in self.state.runs:
            raise WrongTransition(f"job {job_id} is already pending or running")

    def _stopping(self, event: GangStopping) -> None:
        if event.job_id in self.state.runs:
            self.state.runs[event.job_id].leaving = True

    def _ended(self, event: GangEnded) -> None:
        run = self.state.finish(event.job_id)
        self.head_delays.ended(self.state, run)
        if event.how in ("preempted", "lost"):
            self.state.requeue(run, event.kept_us, preempted=event.how == "preempted")

    def _updated(self, event: JobUpdated) -> None:
        update(self.state, event.job, event.prediction)

    def _slowed(self, event: GangSlowed) -> None:
        if event.job_id in self.state.runs:
            left_us = max(0, self.state.runs[event.job_id].end_us - self.state.now_us)
            end_us = min(self.state.now_us + round(left_us * event.ratio), NEVER_US)
            self.state.move_end(event.job_id, end_us, f"{event.job_id} is slowed by a neighbour")

    def _end_predicted(self, event: EndPredicted) -> None:
        update_predicted_end(self.state, event)

    def _run_time_predicted(self, event: RunTimePredicted) -> None:
        self.state.update_prediction(event.job_id, event.prediction)

    def _resized(self, event: GangResized) -> None:
        if event.job_id in self.state.runs:
            apply_shrink(self.state, event.job_id)

    def _card_changed(self, event: CardChanged) -> None:
        space = self.state.space
        card = space.fixed.card_index[event.card_id]
        self.state.outages.pop(event.card_id, None)
        if not event.ok and event.outage.cause:
            self.state.outages[event.card_id] = event.outage
        if bool(space.card_broken[card]) is not event.ok:
            return
        space.set_card_ok(card, event.ok)
        self.state.rebuild_reservations(f"card {event.card_id} {'is back' if event.ok else 'was lost'}")

    def _node_changed(self, event: NodeChanged) -> None:
        self.state.space.set_node_up(self.state.space.fixed.node_index[event.node_id], event.up)
        self.state.rebuild_reservations(f"node {event.node_id} {'is back' if event.up else 'is drained'}")

    def _cluster_changed(self, event: ClusterChanged) -> None:
        self.state = with_cluster(self.state, event.cluster)

    def _node_sets_changed(self, event: NodeSetsChanged) -> None:
        self.state.allow(event.allowed)

    def _foreign_usage_changed(self, event: ForeignUsageChanged) -> None:
        self.state.set_foreign(event.node_id, event.foreign)

    def _cancelled(self, event: JobCancelled) -> None:
        if event.job_id in self.state.queue:
            self.state.withdraw(event.job_id)
        else:  # refused, and not reported yet
            self._refused = [one for one in self._refused if one.job_id != event.job_id]

    def _policies_changed(self, event: PoliciesChanged) -> None:
        self.state = with_policies(self.state, event.policies, event.why)

    def _windows_changed(self, event: WindowsChanged) -> None:
        self.state.timeline.windows = list(event.windows)
        self.state.rebuild_reservations("the maintenance windows changed")
