"""State of the scheduler: capacity, runs, queue, reservations. Events and the cycle change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpusquad.core.capacity.capacity import NO_FOREIGN_USAGE
from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.capacity.space import Space
from gpusquad.core.capacity.trial import SpaceTrial
from gpusquad.core.state.accounts import Accounts
from gpusquad.core.state.lanes import Lane, lane_of
from gpusquad.core.state.limits import headroom
from gpusquad.core.state.policies import Policies
from gpusquad.core.state.queue import PendingJob, Queue
from gpusquad.core.state.runs import FOREVER_US, NEVER_US, Run, Runs, after_us, predicted_end_us
from gpusquad.core.state.timeline import Pin, Reservation, Timeline
from gpusquad.model.cluster import Cluster, ForeignUsage, MaintenanceWindow, Outage
from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.model.node_sets import NodeSets
from gpusquad.model.placement import Placement
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import OrderTenant, Refusal, RunTimePrediction

if TYPE_CHECKING:
    from gpusquad.core.planning.limit_heads import LimitHead

UNKNOWN = RunTimePrediction(NEVER_US, NEVER_US, "none")
MAX_CAUSES = 3
"""Maximum number of causes reported for one change of the reservations."""
_AND = "; "


class SchedulerState:
    """One pool of nodes under one set of policies. Implements ``OrderView``."""

    def __init__(self, cluster: Cluster, policies: Policies, windows: tuple[MaintenanceWindow, ...] = (),
                 rate: Rate | None = None) -> None:  # fmt: skip
        self.policies = policies
        self.rate = rate
        self.space = Space(ClusterArrays(cluster))
        self.runs = Runs()
        self.queue = Queue()
        self.timeline = Timeline(self.space, self.runs, windows)
        fixed = self.space.fixed
        self.accounts = Accounts({t.name: t for t in policies.tenants}, len(fixed.card_ids),
                                 int(fixed.node_cpu.sum()), int(fixed.node_memory.sum()))  # fmt: skip
        self.now_us = 0
        self.sequence = 0
        self.capacity_unchanged = False
        """No capacity was freed since the last cycle, so only new jobs can start."""
        self.reservations_may_advance = True
        """A run ended sooner than predicted since the last cycle, so reservations may move forward."""
        self.new_jobs: list[PendingJob] = []
        self.claims: dict[str, str] = {}
        """Job -> rule by which others were preempted for it. These jobs start first when the cards are free."""
        self.pins: dict[str, Pin] = {}
        """Pending job -> the cards kept for it, because a guest outlived its time or the reserved start has passed."""
        self.committed_us: dict[str, int] = {}
        """Pending job -> the start that its first reservation promised. Later jobs cannot move it."""
        self.startless_us: dict[str, int] = {}
        """Pending job -> since when it has not fitted on what is in service, although a start was promised to it."""
        self.places_us: dict[str, int] = {}
        """Pending job -> when it got the first reservation. It keeps its place from then on where the order policy
        decides by turns. Also noted where keys never change, for the case that the policies change."""
        self.first_reserved_us: dict[str, int] = {}
        self.delayed_starts: list[tuple[str, int, int, str]] = []
        self.replan_cause = ""
        self.last_replan_cause = ""
        """Why reservations were rebuilt in the last cycle, for events."""
        self.later_ends: dict[str, int] = {}
        """Running job -> its predicted end, if that moved later. Cleared by the service that reports it."""
        self.careful = False
        """The head of the queue has waited too long: the careful quantiles apply to all jobs until it runs."""
        self.due_until_us = 0
        """See ``OrderView.due_until_us``."""
        self.resizes = True
        """Whether the engine can change the number of tasks of a running gang."""
        self.suspends = False
        """Whether the engine can stop a gang without loss of work."""
        self.decided_us = 0
        """Time of the last cycle."""
        self.outages: dict[str, Outage] = {}
        """Card -> why it is lost, if known."""
        self.shapes: dict[object, int] = {}
        self.shape_jobs: list[Job] = []
        """One job of each shape, as its example."""
        self.shape_waiting: dict[int, int] = {}
        self.has_limits = any(t.limit_gpus is not None for t in policies.tenants) or any(
            lane.limit_ratio < 1 for lane in policies.lanes
        )
        self.limit_heads: dict[tuple[str, str], LimitHead] = {}
        """Limit -> the first job that waits for it. Found again in every cycle."""
        self._configured: Space | None = None
        self._possible: dict[int, bool] = {}

    # -- OrderView ------------------------------------------------------------------------------------------------

    @property
    def gpus(self) -> int:
        return len(self.space.fixed.card_ids)

    def prediction(self, job: Job) -> RunTimePrediction:
        if job.id in self.queue:
            return self.queue[job.id].prediction
        return self.runs[job.id].prediction if job.id in self.runs else UNKNOWN

    def remaining_us(self, job: Job) -> int:
        if job.id in self.runs:
            return max(0, self.runs[job.id].end_us - self.now_us)
        return self.prediction(job).mid_us

    def left_us(self, job: Job) -> int | None:
        """Predicted remaining run time beside the current neighbours. None: unknown or unlimited."""
        known = job.id in self.runs or job.id in self.queue
        left_us = self.remaining_us(job) if known else NEVER_US
        return None if left_us >= NEVER_US // 2 else left_us

    def served_gpu_s(self, job: Job) -> float:
        if job.id in self.runs:
            run = self.runs[job.id]
            return (run.served_gpu_us + (self.now_us - run.started_us) * job.gpu_milli / 1000) / US_PER_S
        return self.queue[job.id].served_gpu_us / US_PER_S if job.id in self.queue else 0.0

    def tenant(self, name: str) -> OrderTenant:
        return self.accounts.view(name, self.now_us)

    def waiting(self) -> Sequence[Job]:
        return sorted((w.job for w in self.queue), key=lambda job: (job.eligible_us, job.id))

    def key(self, job: Job) -> tuple:
        """The key of the order policy. With turns, first since when the job has kept its place."""
        key = self.policies.order.key(job, self)
        return (self.places_us.get(job.id, FOREVER_US), *key) if self.policies.order.by_turns else key

    # -- changes --------------------------------------------------------------------------------------------------

    def enqueue(
        self,
        job: Job,
        prediction: RunTimePrediction,
        *,
        attempt: int = 0,
        kept_us: int = 0,
        served_gpu_us: int = 0,
        preemptions: int = 0,
        sequence: int | None = None,
    ) -> PendingJob:
        """Add a new or requeued job to the queue."""
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        self.sequence = max(self.sequence, sequence)
        waiting = PendingJob(
            job, prediction, self.shape_of(job), sequence, self.lane(job), attempt, kept_us, served_gpu_us, preemptions
        )
        waiting.set_caution(self.careful)
        position = self.queue.insert(waiting, self.key)
        self.shape_waiting[waiting.shape] = self.shape_waiting.get(waiting.shape, 0) + 1
        self.new_jobs.append(waiting)
        self._drop_reservations_behind(position)
        return waiting

    def dequeue(self, job_id: str) -> PendingJob:
        waiting = self.queue.remove(job_id)
        left = self.shape_waiting[waiting.shape] - 1
        if left:
            self.shape_waiting[waiting.shape] = left
        else:
            del self.shape_waiting[waiting.shape]
        if waiting.is_new:
            self.new_jobs.remove(waiting)
        self.pins.pop(job_id, None)
        self.committed_us.pop(job_id, None)
        self.places_us.pop(job_id, None)
        self.startless_us.pop(job_id, None)
        return waiting

    def withdraw(self, job_id: str) -> None:
        """Remove a pending job that its user cancelled. Jobs behind it may start."""
        self.dequeue(job_id)
        self.claims.pop(job_id, None)
        if self.timeline.reservations.pop(job_id, None):
            self.reservations_may_advance = True
            self.capacity_changed()

    def begin(self, waiting: PendingJob, placement: Placement) -> Run:
        """Start a gang. The caller's trial has already taken its capacity from the space."""
        self.dequeue(waiting.job.id)
        prediction = waiting.prediction
        end_us = predicted_end_us(waiting.job, prediction, placement, self.now_us)
        run = Run(waiting.job, placement, prediction, self.now_us, end_us,
                  waiting.sequence, waiting.lane, waiting.attempt, waiting.kept_us, waiting.served_gpu_us,
                  waiting.preemptions, admitted_until_us=after_us(self.now_us, waiting.admitted_us))  # fmt: skip
        if self.careful:
            self.add_slack(run)
        self.runs.add(run)
        self.accounts.change(run.job, cards_of(placement), run.lane.name, self.now_us, +1)
        self.space.set_allowed(self.space.allowed.with_start(run.job.id, placement))
        return run

    def finish(self, job_id: str) -> Run:
        """Remove a gang that has left its cards, for any reason."""
        run = self.runs.remove(job_id)
        self.later_ends.pop(job_id, None)
        self.reservations_may_advance |= run.end_us > self.now_us
        self.space.release(run.job, run.placement)
        self.accounts.change(run.job, cards_of(run.placement), run.lane.name, self.now_us, -1)
        self.space.set_allowed(self.runs.counted_in(self.space.allowed.given))
        self.capacity_changed()
        return run

    def requeue(self, run: Run, kept_us: int, preempted: bool) -> PendingJob:
        """Queue it again with its eligible time and the work that checkpoints kept."""
        served = run.served_gpu_us + (self.now_us - run.started_us) * run.job.gpu_milli // 1000
        # The first restart adds its time. The prediction already contains that of later ones.
        less_us = kept_us - (run.job.checkpoint.restart_us if run.attempt == 0 else 0)
        left = run.prediction if run.prediction is UNKNOWN else run.prediction.less(less_us)
        return self.enqueue(run.job, left, attempt=run.attempt + 1,
                            kept_us=run.kept_us + kept_us, served_gpu_us=served,
                            preemptions=run.preemptions + preempted, sequence=run.sequence)  # fmt: skip

    def move_end(self, job_id: str, end_us: int, why: str) -> None:
        """Change a predicted end. If it is later, reservations are rebuilt, with this cause."""
        run = self.runs[job_id]
        end_us = min(end_us, NEVER_US)
        if end_us > run.end_us:
            self.rebuild_reservations(why)
            self.later_ends[job_id] = end_us
        self.reservations_may_advance = True
        run.slack_us = 0
        self.runs.move_end(run, end_us)
        self.capacity_changed()

    def update_prediction(self, job_id: str, prediction: RunTimePrediction) -> None:
        """Replace the prediction of a pending job."""
        if job_id not in self.queue:
            return
        waiting = self.queue[job_id]
        before_us = waiting.stay_us
        waiting.prediction = prediction
        waiting.due_us = None  # an order policy may use the prediction
        waiting.set_caution(self.careful)
        if self.queue.reposition(waiting, self.key):
            self.replan_cause = _all_of(self.replan_cause, f"{job_id} has a new prediction")
            self._clear_reservations()
            self.reservations_may_advance = True
            self.capacity_changed()
        elif waiting.stay_us != before_us:
            self._change_reserved_stay(waiting)
            self.capacity_changed()

    def _change_reserved_stay(self, waiting: PendingJob) -> None:
        """Keep the reserved start. Only a longer stay, which may collide with others, has to be planned again."""
        reservation = self.timeline.reservations.get(waiting.job.id)
        if reservation is None:
            return
        end_us = after_us(reservation.start_us, waiting.stay_us)
        if end_us > reservation.end_us and len(self.timeline.reservations) > 1:
            del self.timeline.reservations[waiting.job.id]
            self.reservations_may_advance = True
        else:
            reservation.end_us = end_us

    def set_caution(self, careful: bool) -> None:
        """Use the careful quantiles for ends and stays, or the usual ones again. Rebuilds all reservations without an
        event, because the first reported start already used the careful quantiles."""
        self.careful = careful
        for run in list(self.runs.by_id.values()):
            end_us = run.end_us - run.slack_us
            run.slack_us = 0
            if careful:
                end_us = run.high_end_us
                run.slack_us = end_us - run.end_us
            self.runs.move_end(run, end_us)
        self.queue.set_caution(careful)
        self._clear_reservations()
        self.reservations_may_advance = True
        self.capacity_changed()

    def add_slack(self, run: Run) -> None:
        """Move its predicted end to the high quantile. For a run that starts now, at most to its careful quantile, by
        which it was admitted: reservations of others rely on that end."""
        careful_us, end_us = run.prediction.careful_us, run.high_end_us
        if run.started_us == self.now_us and careful_us is not None:
            end_us = min(end_us, max(run.end_us, run.started_us + careful_us))
        run.slack_us, run.end_us = end_us - run.end_us, end_us

    def forget(self, job_id: str) -> None:
        """Drop what is kept of a finished job."""
        self.first_reserved_us.pop(job_id, None)

    def allow(self, allowed: Mapping[str, NDArray[np.bool_]]) -> None:
        """Replace the named sets of allowed nodes. Jobs that were started since they were made count in them."""
        before, now = self.space.allowed, self.runs.counted_in(NodeSets.of(allowed))
        self.space.set_allowed(now)
        if before.given.equals(now.given) and before.equals(now):
            return
        self._possible, self._configured = {}, None
        if any(name in before and not np.array_equal(before[name], now[name]) for name in now):
            self.rebuild_reservations("the allowed nodes changed")
        self.capacity_changed()

    def set_foreign(self, node_id: str, foreign: ForeignUsage) -> None:
        """Replace the foreign usage of a node. More may break a reservation, less may advance one."""
        node = self.space.fixed.node_index[node_id]
        if self.space.foreign.get(node, NO_FOREIGN_USAGE) != foreign:
            self.space.set_foreign(node, foreign)
            self.rebuild_reservations(f"foreign usage of {node_id} changed")

    def capacity_changed(self) -> None:
        self.capacity_unchanged = False

    def rebuild_reservations(self, why: str) -> None:
        self._clear_reservations()
        self.reservations_may_advance = True
        self.replan_cause = _all_of(self.replan_cause, why)
        self.capacity_changed()

    def resort(self, why: str = "") -> None:
        """Rank all pending jobs again. Reservations are rebuilt only if the order changed."""
        if self.queue.resort(self.key):
            self.replan_cause = _all_of(self.replan_cause, why) if why else self.replan_cause
            self._clear_reservations()
            self.reservations_may_advance = True
            self.capacity_changed()

    def keep_place(self, job_id: str, since_us: int) -> None:
        """Let the job with the first reservation keep its place until it starts."""
        order = self.policies.order
        if job_id in self.places_us or not (order.by_turns or order.varies == "never"):
            return
        self.places_us[job_id] = since_us
        self.queue.reposition(self.queue[job_id], self.key)

    def _clear_reservations(self) -> None:
        """Drop all reservations, except of jobs for which others are being preempted."""
        reservations = self.timeline.reservations
        self.timeline.reservations = {i: p for i, p in reservations.items() if i in self.claims}
        for reservation in self.timeline.reservations.values():
            reservation.wall = None

    def _drop_reservations_behind(self, position: int) -> None:
        """Drop the reservations of jobs behind a new job."""
        reservations = self.timeline.reservations
        if not reservations:
            return
        behind = [
            i
            for i in reservations
            if i not in self.claims and i in self.queue and self.queue.position(self.queue[i]) > position
        ]
        for job_id in behind:
            del reservations[job_id]
        if behind:
            self.reservations_may_advance = True
            self.capacity_changed()

    # -- queries --------------------------------------------------------------------------------------------------

    def reservations_in_way(self, job: Job, start_us: int, end_us: int) -> list[Reservation]:
        """Reservations of other jobs that a pending job could delay if it held cards in this period."""
        rank = self.queue[job.id].rank
        return [
            one for one in self.timeline.reservations.values()
            if one.job.id != job.id and one.overlaps(start_us, end_us, is_behind=self.queue[one.job.id].rank < rank)
        ]  # fmt: skip

    def shape_of(self, job: Job) -> int:
        gang = job.gang
        # A place policy may consider neighbours and priorities.
        key = (gang, job.app, job.profile, job.priority, job.slo is None) if gang.has_shares else gang
        shape = self.shapes.get(key)
        if shape is None:
            shape = self.shapes[key] = len(self.shape_jobs)
            self.shape_jobs.append(job)
        return shape

    def lane(self, job: Job) -> Lane:
        return lane_of(job, self.policies.lanes)

    def try_place(self, space: Space, job: Job, must_place: bool = False) -> Placement | Refusal:
        """Let the place policy place the gang in ``space``, which then lacks that capacity."""
        must_place = must_place or (job.id in self.queue and self.queue[job.id].must_place)
        counts = elastic_counts(job, space, headroom(self, job)) if job.is_elastic else None
        answer = self._propose(space, job, counts, must_place)
        if isinstance(answer, Refusal) and job.is_elastic:
            counts = [low for low, _ in job.bounds]
            answer = self._propose(space, job, counts, must_place)
        # Shapes are placed one after another. If the first took what the second needs, another order may succeed.
        for turn in range(1, len(job.groups)):
            if not isinstance(answer, Refusal):
                break
            answer = self._propose(space, job, counts, must_place, turn)
        return answer

    def _propose(self, space: Space, job: Job, counts: list[int] | None, must_place: bool, turn: int = 0
                 ) -> Placement | Refusal:  # fmt: skip
        trial = SpaceTrial(
            space, job, self.policies.demand, counts, turn, self.rate, must_place, self.left_us, len(self.queue)
        )
        if not job.avoid_cards:
            return self.policies.place.propose(job, trial)
        index = space.fixed.card_index
        space.last_cards = frozenset(index[card] for card in job.avoid_cards if card in index)
        try:
            return self.policies.place.propose(job, trial)
        finally:
            space.last_cards = frozenset()

    def can_ever_run(self, job: Job) -> bool:
        """Whether the configured cluster, all healthy and empty, could hold the gang."""
        shape = self.shape_of(job)
        if shape not in self._possible:
            if self._configured is None:
                self._configured = Space(self.space.fixed)
                self._configured.allowed = self.space.allowed
            placement = self.try_place(self._configured, job, must_place=True)
            self._possible[shape] = isinstance(placement, Placement)
            if isinstance(placement, Placement):
                self._configured.release(job, placement)
        return self._possible[shape]


def _all_of(before: str, why: str) -> str:
    """Several events can change the reservations in one cycle; report all of them."""
    causes = before.split(_AND) if before else []
    return before if why in causes or len(causes) >= MAX_CAUSES else _AND.join([*causes, why])


def cards_of(placement: Placement) -> int:
    return sum(part.cards.size for part in placement.parts)


def elastic_counts(job: Job, space: Space, most_gpus: int) -> list[int]:
    """Number of tasks per group: as many as fit and the limits allow, within the bounds."""
    counts = []
    left = most_gpus - job.gang.min_gpus
    for (request, _), (low, high) in zip(job.groups, job.bounds, strict=True):
        allowed = low + max(0, left) // request.cards if request.cards else high
        count = int(np.clip(min(space.total_room(request), allowed), low, high))
        left -= (count - low) * request.cards
        counts.append(count)
    return counts
