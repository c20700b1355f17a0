"""The scheduler's knowledge: capacity, who runs, who waits, who was promised what. Events and the cycle change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpusquad.core.capacity.capacity import NOBODY
from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.capacity.space import Space
from gpusquad.core.capacity.trial import SpaceTrial
from gpusquad.core.state.accounts import Accounts
from gpusquad.core.state.lanes import Lane, lane_of
from gpusquad.core.state.limits import headroom
from gpusquad.core.state.policies import Policies
from gpusquad.core.state.queue import PendingJob, Queue
from gpusquad.core.state.runs import NEVER_US, Run, Runs, after_us
from gpusquad.core.state.timeline import Timeline
from gpusquad.model.cluster import Cluster, ForeignUsage, MaintenanceWindow, Outage
from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import OrderTenant, Refusal, RunTimePrediction

UNKNOWN = RunTimePrediction(NEVER_US, NEVER_US, "none")
MOST_CAUSES = 3
"""Named for one move of a promise."""
_AND = "; "


class SchedulerState:
    """One pool of nodes under one set of policies. Also the view that orders see."""

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
        self.settled = False
        """No capacity came free since the last cycle: only fresh jobs can do anything."""
        self.brighter = True
        """Something ended sooner than predicted since the last cycle, so promises may come forward."""
        self.fresh: list[PendingJob] = []
        self.claims: dict[str, str] = {}
        """Jobs for whom others were told to leave, and by which rule: they start first when the cards are free."""
        self.first_promise: dict[str, int] = {}
        self.moved: list[tuple[str, int, int, str]] = []
        self.why_moved = ""
        self.why_last = ""
        """Why promises were remade in the last cycle, for whoever tells people."""
        self.later: dict[str, int] = {}
        """Running job -> its predicted end, where that moved later: whoever tells people takes it from here."""
        self.careful = False
        """The first in line has waited too long: all are judged by careful quantiles until it runs."""
        self.due_until_us = 0
        """By which all are ranked, under an order that says when they are due."""
        self.resizes = True
        """Whether the engine can change the number of tasks of a gang that runs."""
        self.outages: dict[str, Outage] = {}
        """Card -> why it is lost, where that is known."""
        self.shapes: dict[object, int] = {}
        self.shape_jobs: list[Job] = []
        """One job of each shape, to ask with."""
        self.shape_waiting: dict[int, int] = {}
        self.has_limits = any(t.limit_gpus is not None for t in policies.tenants) or any(
            lane.limit_ratio < 1 for lane in policies.lanes
        )
        self._configured: Space | None = None
        self._possible: dict[int, bool] = {}

    # -- the view -------------------------------------------------------------------------------------------------

    @property
    def gpus(self) -> int:
        return len(self.space.fixed.card_ids)

    def forecast(self, job: Job) -> RunTimePrediction:
        if job.id in self.queue:
            return self.queue[job.id].forecast
        return self.runs[job.id].forecast if job.id in self.runs else UNKNOWN

    def remaining_us(self, job: Job) -> int:
        if job.id in self.runs:
            return max(0, self.runs[job.id].end_us - self.now_us)
        return self.forecast(job).mid_us

    def left_us(self, job: Job) -> int | None:
        """Predicted run time still ahead, beside whom it is now; None: not known, or without end."""
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
        return sorted((w.job for w in self.queue), key=lambda job: (job.submitted_us, job.id))

    def key(self, job: Job) -> tuple:
        return self.policies.order.key(job, self)

    # -- what happens ---------------------------------------------------------------------------------------------

    def enqueue(
        self,
        job: Job,
        forecast: RunTimePrediction,
        *,
        attempt: int = 0,
        kept_us: int = 0,
        served_gpu_us: int = 0,
        preemptions: int = 0,
        sequence: int | None = None,
    ) -> PendingJob:
        """A job joins the queue, new or again."""
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        self.sequence = max(self.sequence, sequence)
        waiting = PendingJob(
            job, forecast, self.shape_of(job), sequence, self.lane(job), attempt, kept_us, served_gpu_us, preemptions
        )
        waiting.judge(self.careful)
        position = self.queue.insert(waiting, self.key)
        self.shape_waiting[waiting.shape] = self.shape_waiting.get(waiting.shape, 0) + 1
        self.fresh.append(waiting)
        self._drop_promises_behind(position)
        return waiting

    def dequeue(self, job_id: str) -> PendingJob:
        waiting = self.queue.remove(job_id)
        left = self.shape_waiting[waiting.shape] - 1
        if left:
            self.shape_waiting[waiting.shape] = left
        else:
            del self.shape_waiting[waiting.shape]
        if waiting.fresh:
            self.fresh.remove(waiting)
        return waiting

    def withdraw(self, job_id: str) -> None:
        """The user takes a pending job back; whoever it held up may move."""
        self.dequeue(job_id)
        self.claims.pop(job_id, None)
        if self.timeline.promises.pop(job_id, None):
            self.brighter = True
            self.unsettle()

    def begin(self, waiting: PendingJob, placement: Placement) -> Run:
        """A gang starts. Its capacity is taken from the space by the caller's trial."""
        self.dequeue(waiting.job.id)
        forecast = waiting.forecast
        mid_us = forecast.mid_us
        if waiting.job.is_elastic:
            mid_us = -(-mid_us * waiting.job.tasks // tasks_in(placement))  # rounded up: a promise may count on it
        run = Run(waiting.job, placement, forecast, self.now_us, min(self.now_us + mid_us, NEVER_US),
                  waiting.sequence, waiting.lane, waiting.attempt, waiting.kept_us, waiting.served_gpu_us,
                  waiting.preemptions)  # fmt: skip
        if self.careful:
            self.give_slack(run)
        self.runs.add(run)
        self.accounts.change(run.job, cards_of(placement), run.lane.name, self.now_us, +1)
        return run

    def finish(self, job_id: str) -> Run:
        """A gang is gone from its cards, for whatever reason."""
        run = self.runs.remove(job_id)
        self.later.pop(job_id, None)
        self.brighter |= run.end_us > self.now_us
        self.space.give_back(run.job, run.placement)
        self.accounts.change(run.job, cards_of(run.placement), run.lane.name, self.now_us, -1)
        self.unsettle()
        return run

    def requeue(self, run: Run, kept_us: int, preempted: bool) -> PendingJob:
        """Runs again later, with its request time and what its checkpoint kept."""
        served = run.served_gpu_us + (self.now_us - run.started_us) * run.job.gpu_milli // 1000
        # A first restart adds its time; later ones are in the forecast already.
        less_us = kept_us - (run.job.checkpoint.restart_us if run.attempt == 0 else 0)
        left = run.forecast if run.forecast is UNKNOWN else run.forecast.less(less_us)
        return self.enqueue(run.job, left, attempt=run.attempt + 1,
                            kept_us=run.kept_us + kept_us, served_gpu_us=served,
                            preemptions=run.preemptions + preempted, sequence=run.sequence)  # fmt: skip

    def move_end(self, job_id: str, end_us: int, why: str) -> None:
        """A predicted end changed. Later: promises that counted on it are made anew, and say why."""
        run = self.runs[job_id]
        if end_us > run.end_us:
            self.remake_promises(why)
            self.later[job_id] = end_us
        self.brighter = True
        run.slack_us = 0
        self.runs.move_end(run, end_us)
        self.unsettle()

    def foretell(self, job_id: str, forecast: RunTimePrediction) -> None:
        """A waiting job has another forecast now."""
        if job_id not in self.queue:
            return
        waiting = self.queue[job_id]
        before_us = waiting.stay_us
        waiting.forecast = forecast
        waiting.due_us = None  # an order may go by the forecast
        waiting.judge(self.careful)
        if self.queue.place_anew(waiting, self.key):
            self.why_moved = _all_of(self.why_moved, f"{job_id} is foretold anew")
            self._clear_promises()
            self.brighter = True
            self.unsettle()
        elif waiting.stay_us != before_us:
            self._change_promised_stay(waiting)
            self.unsettle()

    def _change_promised_stay(self, waiting: PendingJob) -> None:
        """The start stays promised. Only a longer stay, which may be in others' way, has to be planned anew."""
        promise = self.timeline.promises.get(waiting.job.id)
        if promise is None:
            return
        end_us = after_us(promise.start_us, waiting.stay_us)
        if end_us > promise.end_us and len(self.timeline.promises) > 1:
            del self.timeline.promises[waiting.job.id]
            self.brighter = True
        else:
            promise.end_us = end_us

    def judge(self, careful: bool) -> None:
        """Count on careful ends and stays, or on the usual ones again. Promises are made anew, and nobody is told:
        what was promised first was promised by the careful ones."""
        self.careful = careful
        for run in list(self.runs.by_id.values()):
            end_us = run.end_us - run.slack_us
            run.slack_us = 0
            if careful:
                end_us = run.high_end_us
                run.slack_us = end_us - run.end_us
            self.runs.move_end(run, end_us)
        self.queue.judge(careful)
        self._clear_promises()
        self.brighter = True
        self.unsettle()

    def give_slack(self, run: Run) -> None:
        """Count on its cards no sooner than its high quantile. Who starts now was let in by its careful one, and is
        counted no longer: others were promised what it leaves."""
        careful_us, end_us = run.forecast.careful_us, run.high_end_us
        if run.started_us == self.now_us and careful_us is not None:
            end_us = min(end_us, max(run.end_us, run.started_us + careful_us))
        run.slack_us, run.end_us = end_us - run.end_us, end_us

    def forget(self, job_id: str) -> None:
        """A job is over for good: nothing of it is needed any more."""
        self.first_promise.pop(job_id, None)

    def allow(self, allowed: Mapping[str, NDArray[np.bool_]]) -> None:
        """Other nodes for those who may not go everywhere."""
        before = self.space.allowed
        if before.keys() == allowed.keys() and all(np.array_equal(before[name], allowed[name]) for name in allowed):
            return
        grew = any(name in before and not np.array_equal(before[name], allowed[name]) for name in allowed)
        self.space.set_allowed(allowed)
        self._possible, self._configured = {}, None
        if grew:
            self.remake_promises("other nodes may be used")
        self.unsettle()

    def set_foreign(self, node_id: str, foreign: ForeignUsage) -> None:
        """Others' work on a node is another one now. More of it may break a promise, less may bring one forward."""
        node = self.space.fixed.node_index[node_id]
        if self.space.foreign.get(node, NOBODY) != foreign:
            self.space.set_foreign(node, foreign)
            self.remake_promises(f"others' work on {node_id} changed")

    def unsettle(self) -> None:
        self.settled = False

    def remake_promises(self, why: str) -> None:
        self._clear_promises()
        self.brighter = True
        self.why_moved = _all_of(self.why_moved, why)
        self.unsettle()

    def resort(self, why: str = "") -> None:
        """Rank everybody anew; a promise stays with whoever was promised unless overtaken."""
        if self.queue.resort(self.key):
            self.why_moved = _all_of(self.why_moved, why) if why else self.why_moved
            self._clear_promises()
            self.brighter = True
            self.unsettle()

    def _clear_promises(self) -> None:
        """All but those for whom others are already leaving."""
        promises = self.timeline.promises
        self.timeline.promises = {i: p for i, p in promises.items() if i in self.claims}
        for promise in self.timeline.promises.values():
            promise.wall = None

    def _drop_promises_behind(self, position: int) -> None:
        """A job ahead arrived: promises to those behind it no longer stand."""
        promises = self.timeline.promises
        if not promises:
            return
        behind = [
            i
            for i in promises
            if i not in self.claims and i in self.queue and self.queue.position(self.queue[i]) > position
        ]
        for job_id in behind:
            del promises[job_id]
        if behind:
            self.brighter = True
            self.unsettle()

    # -- what is asked often --------------------------------------------------------------------------------------

    def shape_of(self, job: Job) -> int:
        gang = job.gang
        # A place may look at whom they join, and at who matters more.
        key = (gang, job.app, job.profile, job.priority, job.slo is None) if gang.has_shares else gang
        shape = self.shapes.get(key)
        if shape is None:
            shape = self.shapes[key] = len(self.shape_jobs)
            self.shape_jobs.append(job)
        return shape

    def lane(self, job: Job) -> Lane:
        return lane_of(job, self.policies.lanes)

    def try_place(self, space: Space, job: Job, insists: bool = False) -> Placement | Refusal:
        """Ask the place policy; what it places is taken from that space."""
        insists = insists or (job.id in self.queue and self.queue[job.id].insists)
        counts = elastic_counts(job, space, headroom(self, job)) if job.is_elastic else None
        answer = self._propose(space, job, counts, insists)
        if isinstance(answer, Refusal) and job.is_elastic:
            counts = [low for low, _ in job.bounds]
            answer = self._propose(space, job, counts, insists)
        # Shapes are placed one after another, so the first may take what only it could leave to the second.
        for turn in range(1, len(job.groups)):
            if not isinstance(answer, Refusal):
                break
            answer = self._propose(space, job, counts, insists, turn)
        return answer

    def _propose(self, space: Space, job: Job, counts: list[int] | None, insists: bool, turn: int = 0
                 ) -> Placement | Refusal:  # fmt: skip
        trial = SpaceTrial(
            space, job, self.policies.demand, counts, turn, self.rate, insists, self.left_us, len(self.queue)
        )
        return self.policies.place.propose(job, trial)

    def can_ever_run(self, job: Job) -> bool:
        """Whether the configured cluster, all healthy and empty, could hold the gang."""
        shape = self.shape_of(job)
        if shape not in self._possible:
            if self._configured is None:
                self._configured = Space(self.space.fixed)
                self._configured.allowed = self.space.allowed
            placement = self.try_place(self._configured, job, insists=True)
            self._possible[shape] = isinstance(placement, Placement)
            if isinstance(placement, Placement):
                self._configured.give_back(job, placement)
        return self._possible[shape]


def _all_of(before: str, why: str) -> str:
    """Several things can move a promise in one cycle, and none of them alone is to be blamed."""
    causes = before.split(_AND) if before else []
    return before if why in causes or len(causes) >= MOST_CAUSES else _AND.join([*causes, why])


def cards_of(placement: Placement) -> int:
    return sum(part.cards.size for part in placement.parts)


def tasks_in(placement: Placement) -> int:
    return sum(len(part.nodes) for part in placement.parts)


def elastic_counts(job: Job, space: Space, most_gpus: int) -> list[int]:
    """As many tasks as there is room for and the limits allow, within the bounds."""
    counts = []
    left = most_gpus - job.gang.least_gpus
    for (request, _), (low, high) in zip(job.groups, job.bounds, strict=True):
        allowed = low + max(0, left) // request.cards if request.cards else high
        count = int(np.clip(min(space.total_room(request), allowed), low, high))
        left -= (count - low) * request.cards
        counts.append(count)
    return counts
