"""What a plan policy can do in one cycle: start a gang, reserve cards for it, list backfill candidates. Nothing here
delays a reservation."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import numpy as np

from gpusquad.core.capacity.space import Space
from gpusquad.core.planning.commitments import (
    find_pin,
    is_doubtful,
    is_due,
    pinned_reservation,
)
from gpusquad.core.planning.gathering import gather
from gpusquad.core.planning.limit_heads import take_spare, waits_for_limit
from gpusquad.core.planning.openings import open_until_us
from gpusquad.core.planning.outage import keep_in_service
from gpusquad.core.planning.slowdown import crowded_out, delayed_reservation
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.runs import FOREVER_US, NEVER_US, after_us
from gpusquad.core.state.state import SchedulerState, cards_of
from gpusquad.core.state.timeline import UNKNOWN_SPARE, Reservation
from gpusquad.model.decision import Decision, Start
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.reasons import ReasonCode
from gpusquad.model.units import US_PER_S

MAX_UNPINNED = 4
"""Number of reserved jobs per cycle for which a pin is looked for in vain. Each costs a trial."""
MAX_GATHERED = 4
"""Number of jobs per cycle that gather cards. The others are planned by predicted ends alone."""
CONSECUTIVE_INSTANTS = 16
"""Number of consecutive instants tried for a job whose place policy refuses the neighbours. Then instants are
skipped."""


class CycleSession:
    """Implements ``model.views.PlanSession`` for one cycle."""

    def __init__(self, state: SchedulerState) -> None:
        self.state = state
        self.decisions: list[Decision] = []
        self._refused: dict[int, int] = {}
        """Shape -> end of the shortest stay refused in this cycle. Capacity only shrinks, so longer stays are refused
        too."""
        self._interfering: set[int] = set()
        """Shapes that have room in this cycle but were refused because of their neighbours."""
        self._interfered = 0
        self._windows: dict[tuple[str, ...], Space] = {}
        """Jobs with a reservation in the way -> capacity beside these reservations. See ``_current_windows``."""
        self._windows_version = state.space.version
        """Version of the space that ``_windows`` belongs to."""
        self._renewed: dict[str, None] = {}
        """Jobs whose reservation was made or confirmed in this cycle, in order."""
        self._unpinned = 0
        """Number of reserved jobs for which no cards could be pinned in this cycle."""
        self._gathered = 0
        """Number of jobs that have gathered cards in this cycle."""
        self._overcommits = state.policies.place.overcommits()
        self._reranks = state.policies.order.changes_with_each_start
        if state.reservations_may_advance:
            self._count_spare_cards_again()

    # -- for plan policies -----------------------------------------------------------------------------------------

    def in_order(self) -> Iterator[Job]:
        """Jobs in order. After a start, the queue is sorted again if the order changes with each start."""
        queue = self.state.queue
        position, seen = 0, set()
        while position < len(queue):
            waiting = queue.at(position)
            position += 1
            if waiting.blocked or waiting.job.id in seen:
                continue
            if self._reranks:
                seen.add(waiting.job.id)
            yield waiting.job
            if waiting.job.id not in queue:
                position -= 1
                if self._reranks:
                    queue.resort(self.state.key)
                    position = 0

    def start(self, job: Job) -> bool:
        state = self.state
        waiting = state.queue[job.id]
        if waiting.blocked or (state.capacity_unchanged and not waiting.is_new):
            return False
        if state.has_limits and waits_for_limit(state, waiting):
            return False
        until_us = after_us(state.now_us, waiting.stay_us)
        is_reserved = job.id in state.timeline.reservations
        if not is_reserved and until_us >= self._refused.get(waiting.shape, FOREVER_US + 1):
            return False
        placement = self._find(waiting, until_us)
        if placement is None and is_reserved:
            placement = self._use_reserved_cards(waiting, until_us)
        if placement is None and self._goes_before_those_behind(waiting, until_us):
            self._drop_behind(waiting)
            placement = self._find(waiting, until_us)
        if placement is None:
            return False
        if delayed_reservation(state, job, placement, until_us) is not None:
            state.space.release(job, placement)
            return False
        state.timeline.reservations.pop(job.id, None)
        self._record_if_later(job.id, state.now_us)
        for reservation in state.reservations_in_way(job, state.now_us, until_us):
            self._stay_past(reservation, job, placement)
        if state.limit_heads:
            take_spare(state, waiting, cards_of(placement))
        state.begin(waiting, placement)
        cause = state.claims.pop(job.id, "") or ("backfill" if self._is_backfill(waiting) else "next")
        self.decisions.append(Start(job.id, placement, cause))
        return True

    def start_at(self, job: Job, placement: Placement) -> None:
        """Start the gang on these cards, which are free and not reserved."""
        state = self.state
        waiting = state.queue[job.id]
        state.space.take(job, placement)
        state.begin(waiting, placement)
        self.decisions.append(Start(job.id, placement, "next"))

    def _stay_past(self, reservation: Reservation, job: Job, placement: Placement) -> None:
        """Account for a job that still runs when the reservation starts: less capacity is left over then."""
        if not job.has_shares:
            reservation.spare_cards -= cards_of(placement)
        if reservation.wall is not None:
            reservation.wall.take(job, placement)

    def _is_backfill(self, waiting: PendingJob) -> bool:
        queue = self.state.queue
        return any(queue[job_id].rank < waiting.rank for job_id in self.state.timeline.reservations)

    def start_claims(self) -> None:
        """Start jobs for which others were preempted, before all others. A job that still does not fit loses its
        claim."""
        state = self.state
        for job_id in list(state.claims):
            if not self.start(state.queue[job_id].job) and not any(run.leaving for run in state.runs.by_id.values()):
                del state.claims[job_id]
                state.timeline.reservations.pop(job_id, None)

    def start_unconditionally(self, job: Job) -> bool:
        """A job that waits for better neighbours could wait indefinitely beside a service that never ends. So it
        accepts the best of the refused ones if no later start is known."""
        waiting = self.state.queue[job.id]
        if waiting.shape not in self._interfering:
            return False
        reservation = self.state.timeline.reservations.get(job.id) or self._first_reservation(waiting, None)
        if reservation is not None and reservation.start_us < NEVER_US:
            return False
        waiting.must_place = True
        self._refused.pop(waiting.shape, None)
        started = self.start(job)
        waiting.must_place = False
        return started

    def reserve(self, job: Job) -> bool:
        state = self.state
        self._renewed[job.id] = None
        if self._keep_pin(state.queue[job.id]):
            return True
        old = state.timeline.reservations.get(job.id)
        if job.id in state.startless_us and not state.capacity_unchanged:
            old = None
        if old is not None and (
            state.capacity_unchanged or (not state.reservations_may_advance and old.start_us > state.now_us)
        ):
            return True
        new = self._plan_start(state.queue[job.id], old)
        if old is not None and (new is None or new.start_us > old.start_us) and old.start_us > state.now_us:
            return True
        if new is None:
            new = keep_in_service(state, state.queue[job.id], self._reserved_ahead(job.id))
        else:
            state.startless_us.pop(job.id, None)
        if new is None:
            state.timeline.reservations.pop(job.id, None)
            return False
        if new.keeps_cards:
            self._drop_unconfirmed(job.id)
        self._set_reservation(new)
        return True

    def candidates(self, by: str, aged_s: float = inf) -> Iterator[Job]:
        state = self.state
        if state.capacity_unchanged:
            chosen = sorted(state.new_jobs, key=lambda w: w.rank)
        else:
            chosen = [state.queue.at(int(i)) for i in np.flatnonzero(self._may_fit())]
        if by != "order":
            chosen = _by_age_then(by, chosen, state.now_us - aged_s * US_PER_S)
        reservations, refused = state.timeline.reservations, self._refused
        for waiting in chosen:
            until_us = after_us(state.now_us, waiting.stay_us)
            if (
                until_us >= refused.get(waiting.shape, FOREVER_US + 1)
                or waiting.blocked
                or waiting.job.id in reservations
            ):
                continue
            yield waiting.job

    def finish(self) -> None:
        """Drop reservations that the plan policy did not renew. All pending jobs have been considered."""
        reservations = self.state.timeline.reservations
        for job_id in [i for i in reservations if i not in self._renewed and i not in self.state.claims]:
            del reservations[job_id]
        first = next((job_id for job_id in self._renewed if job_id in reservations), None)
        if first in self.state.committed_us:
            self.state.keep_place(first, self.state.now_us)
        for waiting in self.state.new_jobs:
            waiting.is_new = False
        self.state.new_jobs.clear()
        self.state.capacity_unchanged = True
        self.state.reservations_may_advance = False
        self.state.last_replan_cause, self.state.replan_cause = self.state.replan_cause, ""

    # -- starting --------------------------------------------------------------------------------------------------

    def _find(self, waiting: PendingJob, until_us: int) -> Placement | None:
        """Place the gang now without delaying a reservation."""
        state, job = self.state, waiting.job
        if not self._overcommits and not state.space.fits(job):
            return self._refuse(waiting, 0)
        now_us = state.now_us
        in_way = state.reservations_in_way(job, now_us, until_us)
        if not job.has_shares and any(job.gang.min_gpus > p.spare_cards for p in in_way):
            return self._refuse(waiting, until_us)
        closed = bool(state.timeline.windows) and bool(state.timeline.closed_nodes(now_us, until_us))
        if not in_way and not closed:
            return self._place_on(state.space, job) or self._refuse(waiting, 0)
        if len(in_way) == 1 and not closed:
            return self._find_beside(in_way[0], waiting, until_us)
        return self._find_in_front(in_way, waiting, until_us) or self._refuse(waiting, until_us)

    def _use_reserved_cards(self, waiting: PendingJob, until_us: int) -> Placement | None:
        """Use its reserved cards if the start is due and the place policy finds no others."""
        state, job = self.state, waiting.job
        reservation = state.timeline.reservations[job.id]
        placement = reservation.placement
        if placement is None or (reservation.start_us > state.now_us and not reservation.is_pinned):
            return None
        in_way = state.reservations_in_way(job, state.now_us, until_us)
        free = state.timeline.available(state.now_us, until_us, state.now_us, in_way)
        if not free.holds(job, placement):
            return None
        state.space.take(job, placement)
        if crowded_out(state, job, placement):
            state.space.release(job, placement)
            return None
        return placement

    def _count_spare_cards_again(self) -> None:
        """A run ended early: more cards may be spare than counted. This holds for the reservations of jobs behind as
        well, which would keep a job that fits from starting."""
        for reservation in self.state.timeline.reservations.values():
            if reservation.placement is not None:
                reservation.spare_cards, reservation.wall = UNKNOWN_SPARE, None

    def _goes_before_those_behind(self, waiting: PendingJob, until_us: int) -> bool:
        """Whether there is room, reservations of jobs behind may be what keeps the job from it, and these may not: it
        would start later than promised beside them, or guests may no longer delay it."""
        state, job = self.state, waiting.job
        if job.id not in state.committed_us or not (self._overcommits or state.space.fits(job)):
            return False
        in_way = state.reservations_in_way(job, state.now_us, until_us)
        if not any(state.queue[one.job.id].rank > waiting.rank and one.job.id not in state.claims for one in in_way):
            return False
        promised_us = state.committed_us[job.id]
        if promised_us <= state.now_us or is_due(state, waiting):
            return True
        beside = state.timeline.reservations.get(job.id)
        if beside is None or beside.start_us > promised_us:
            beside = self._first_reservation(waiting, None)
        return beside is None or beside.start_us > promised_us

    def _drop_behind(self, waiting: PendingJob) -> None:
        """Drop the reservations of jobs behind. They were made around its own, which was too pessimistic, and are made
        again in this cycle."""
        reservations, queue = self.state.timeline.reservations, self.state.queue
        for job_id in [i for i in reservations if queue[i].rank > waiting.rank and i not in self.state.claims]:
            del reservations[job_id]

    def _drop_unconfirmed(self, but: str) -> None:
        """Drop the reservations of jobs that this cycle has not come to yet: they were made without the cards that
        this one keeps."""
        reservations = self.state.timeline.reservations
        for job_id in [i for i in reservations if i != but and i not in self._renewed and i not in self.state.claims]:
            del reservations[job_id]

    def _find_beside(self, reservation: Reservation, waiting: PendingJob, until_us: int) -> Placement | None:
        """Place the gang beside one reservation. It may use reserved cards if equivalent ones are left at that
        instant."""
        job = waiting.job
        if reservation.placement is None and not job.has_shares:
            may_place = job.gang.gpus <= reservation.spare_cards and not job.is_elastic
            placement = self._place_on(self.state.space, job) if may_place else None
            if placement is not None or not job.is_elastic:
                return placement or self._refuse(waiting, until_us)
        placement = self._find_in_front([reservation], waiting, until_us)
        may_move = not reservation.is_pinned and not reservation.keeps_cards
        if (
            placement is None
            and may_move
            and all(request.needs_only_idle_cards for request, _ in reservation.job.groups)
        ):
            # Any idle card is equivalent to the reserved ones. For blocks of cards the trial is rarely worth its cost.
            placement = self._find_by_moving_cards(reservation, job)
        return placement or self._refuse(waiting, until_us)

    def _find_in_front(self, in_way: list[Reservation], waiting: PendingJob, until_us: int) -> Placement | None:
        """Place the gang on capacity that is free now and not reserved at any instant of the stay."""
        state = self.state
        for reservation in in_way:
            self._name_cards(reservation)
        key = tuple(p.job.id for p in in_way)
        windows = self._current_windows()
        window = windows.get(key)
        if window is None and len(in_way) == 1 and not state.timeline.windows:
            wall = self._wall(in_way[0])
            if not self._overcommits and not wall.fits(waiting.job):
                return None
            window = windows[key] = state.space.copy()
            window.keep_least(wall)
        if window is None:
            window = state.timeline.available(state.now_us, until_us, state.now_us, in_way)
            if not state.timeline.windows:
                windows[key] = window
        if not self._overcommits and not window.fits(waiting.job):
            return None
        placement = self._place_on(window, waiting.job)
        if placement is None:
            return None
        state.space.take(waiting.job, placement)
        if not state.timeline.windows:
            # This window already contains the gang. All others are stale.
            self._windows, self._windows_version = {key: window}, state.space.version
        return placement

    def _current_windows(self) -> dict[tuple[str, ...], Space]:
        """Windows cached for the current contents of the space."""
        version = self.state.space.version
        if self._windows_version != version:
            self._windows, self._windows_version = {}, version
        return self._windows

    def _wall(self, reservation: Reservation) -> Space:
        if reservation.wall is None:
            reservation.wall = self.state.timeline.wall_of(reservation)
        reservation.wall.set_allowed(self.state.space.allowed)  # starts may have changed it
        return reservation.wall

    def _find_by_moving_cards(self, reservation: Reservation, job: Job) -> Placement | None:
        """Place the gang on any cards, if the reservation can then move to other cards at the same instant."""
        state = self.state
        placement = self._place_on(state.space, job)
        if placement is None:
            return None
        others = state.reservations_in_way(reservation.job, reservation.start_us, reservation.end_us)
        future = state.timeline.available(reservation.start_us, reservation.end_us, state.now_us, others)
        elsewhere = state.try_place(future, reservation.job) if future.fits(reservation.job) else None
        if isinstance(elsewhere, Placement):
            reservation.placement, reservation.wall = elsewhere, None
            return placement
        state.space.release(job, placement)
        return None

    def _place_on(self, space: Space, job: Job) -> Placement | None:
        answer = self.state.try_place(space, job)
        if isinstance(answer, Placement):
            return answer
        if answer.code is ReasonCode.INTERFERENCE:
            self._interfering.add(self.state.queue[job.id].shape)
            self._interfered += 1
        return None

    def _refuse(self, waiting: PendingJob, until_us: int) -> None:
        if waiting.job.id not in self.state.timeline.reservations:
            known = self._refused.get(waiting.shape, FOREVER_US)
            self._refused[waiting.shape] = min(known, until_us)

    def _may_fit(self) -> np.ndarray:
        """Fast filter of the queue: by shape, and by the spare cards of reservations for jobs that stay past their
        start."""
        state = self.state
        queue = state.queue
        if self._overcommits:
            return np.ones(len(queue), dtype=bool)
        fits = np.zeros(len(state.shape_jobs), dtype=bool)
        cards = np.zeros(len(state.shape_jobs), dtype=np.int64)
        for shape in state.shape_waiting:
            job = state.shape_jobs[shape]
            fits[shape] = state.space.fits(job)
            cards[shape] = 0 if job.has_shares else job.gang.min_gpus
        may = fits[queue.shapes]
        for reservation in state.timeline.reservations.values():
            if may.any():
                short = queue.stay_us <= min(reservation.start_us, reservation.open_until_us) - state.now_us
                may &= short | (cards[queue.shapes] <= reservation.spare_cards)
        return may

    # -- reservations ----------------------------------------------------------------------------------------------

    def _keep_pin(self, waiting: PendingJob) -> bool:
        """Reserve the cards that are kept for the job, if any are."""
        state, job_id = self.state, waiting.job.id
        old = state.timeline.reservations.get(job_id)
        if state.capacity_unchanged and old is not None:
            return old.is_pinned
        if self._unpinned >= MAX_UNPINNED or job_id in state.claims or not is_due(state, waiting):
            return False
        ahead = self._reserved_ahead(job_id)
        planned = self._plan_start(waiting, None)
        if planned is not None:
            self._name_cards(planned)
        pin = find_pin(state, waiting, ahead, planned)
        if pin is None:
            self._unpinned += 1
            if state.pins.pop(job_id, None) is not None:
                state.timeline.reservations.pop(job_id, None)
            return False
        new = pinned_reservation(state, waiting, pin)
        state.startless_us.pop(job_id, None)
        if pin is not state.pins.get(job_id) or (old is not None and new.start_us > old.start_us):
            self._drop_unconfirmed(job_id)
        state.pins[job_id] = pin
        self._set_reservation(new)
        return True

    def _plan_start(self, waiting: PendingJob, old: Reservation | None) -> Reservation | None:
        """The first start by predicted ends. Where that cannot be relied on, the job gathers cards."""
        state = self.state
        planned = self._first_reservation(waiting, old)
        if self._gathered >= MAX_GATHERED or not is_doubtful(state, waiting, planned):
            return planned
        self._gathered += 1
        return gather(state, waiting, self._reserved_ahead(waiting.job.id)) or planned

    def _reserved_ahead(self, job_id: str) -> list[Reservation]:
        """Reservations of the jobs before it in the order, with the names of their cards."""
        earlier = dict.fromkeys([*self.state.claims, *self._renewed])
        reservations = self.state.timeline.reservations
        ahead = [p for i in earlier if i != job_id and (p := reservations.get(i)) is not None]
        for reservation in ahead:
            self._name_cards(reservation)
        return ahead

    def _first_reservation(self, waiting: PendingJob, old: Reservation | None) -> Reservation | None:
        """A reservation at the earliest instant at which the whole gang fits without delaying other reservations."""
        state, job = self.state, waiting.job
        timeline = state.timeline
        alone = timeline.first_fit_alone(job, state.now_us, old.start_us if old else None)
        others = [p for p in timeline.reservations.values() if p.job.id != job.id]
        if not others and not timeline.windows and alone > state.now_us and len(job.groups) == 1:
            reservation = self._reservation_alone(waiting, alone)
            if reservation is not None or not job.has_shares:
                return reservation
            # There is room then, but the place policy may refuse the neighbours.
        return self._first_of(waiting, [at_us for at_us in timeline.instants(state.now_us) if at_us >= alone])

    def _first_of(self, waiting: PendingJob, instants: list[int]) -> Reservation | None:
        """The first of these instants at which the gang can be placed. The more often the place policy refused the
        neighbours, the more instants are skipped: a slightly later reservation is better than trying 10,000 ends."""
        look_at, before = 0, self._interfered
        last_known_us = max((at_us for at_us in instants if at_us < NEVER_US), default=NEVER_US)
        for index, at_us in enumerate(instants):
            if index < look_at and at_us < last_known_us:
                continue
            reservation = self._reservation_at(waiting, at_us)
            if reservation is not None:
                return reservation
            look_at = index + 1 + ((self._interfered - before) // CONSECUTIVE_INSTANTS) ** 2
        return None

    def _reservation_alone(self, waiting: PendingJob, at_us: int) -> Reservation | None:
        if at_us > NEVER_US:
            return None
        timeline, job = self.state.timeline, waiting.job
        if timeline.can_fit_by_count(job):
            spare = self.state.space.idle_total + timeline.runs.cards_free_by(at_us) - job.gang.min_gpus
            return Reservation(job, at_us, after_us(at_us, waiting.stay_us), None, spare)
        return self._reservation_at(waiting, at_us)

    def _reservation_at(self, waiting: PendingJob, at_us: int) -> Reservation | None:
        state, job = self.state, waiting.job
        for other in state.timeline.reservations.values():
            self._name_cards(other)
        end_us = after_us(at_us, waiting.stay_us)
        space = state.timeline.available(at_us, end_us, state.now_us, state.reservations_in_way(job, at_us, end_us))
        placement = self._place_on(space, job) if self._overcommits or space.fits(job) else None
        if placement is None:
            return None
        return Reservation(job, at_us, end_us, placement, self._left_over(job, placement, at_us))

    def _left_over(self, job: Job, placement: Placement, at_us: int) -> int:
        """Cards idle at that instant besides the reserved ones."""
        if job.has_shares:
            return UNKNOWN_SPARE
        return self.state.timeline.space_at(at_us).idle_total - cards_of(placement)

    def _name_cards(self, reservation: Reservation) -> None:
        """Choose cards for a reservation that only counts them, because other jobs are about to reserve or share
        some."""
        if reservation.placement is None:
            placement = self.state.try_place(self.state.timeline.space_at(reservation.start_us), reservation.job)
            if isinstance(placement, Placement):
                reservation.placement = placement

    def _set_reservation(self, reservation: Reservation) -> None:
        state = self.state
        job_id = reservation.job.id
        if reservation.start_us < NEVER_US and job_id not in state.committed_us:
            state.committed_us[job_id] = self._latest_end_waited_for(reservation)
            state.first_reserved_us.setdefault(job_id, state.committed_us[job_id])
        reservation.open_until_us = open_until_us(state, reservation)
        reservation.first_us = state.first_reserved_us.get(job_id, reservation.start_us)
        self._record_if_later(job_id, reservation.start_us)
        state.timeline.reservations[job_id] = reservation
        self._windows.clear()
        self._refused.clear()

    def _record_if_later(self, job_id: str, start_us: int) -> None:
        """Record a start that is later than first reserved. Also for a job that starts now, which gets no reservation
        again."""
        state = self.state
        first_us = state.first_reserved_us.get(job_id, start_us)
        if start_us > first_us and state.replan_cause:
            state.delayed_starts.append((job_id, first_us, start_us, state.replan_cause))

    def _latest_end_waited_for(self, reservation: Reservation) -> int:
        """The start reported to the user: the latest high quantile of the ends that the reservation waits for."""
        latest = reservation.start_us
        for end_us, _, job_id in self.state.runs.ends:
            if end_us > reservation.start_us:
                break
            latest = max(latest, min(self.state.runs[job_id].high_end_us, NEVER_US))
        return latest


def _by_age_then(by: str, waiting: list[PendingJob], born_before_us: float) -> list[PendingJob]:
    """Jobs eligible before that instant by eligible time, then the others by the given criterion."""
    key = _shortest if by == "shortest" else _merit
    young = [w for w in waiting if w.job.eligible_us >= born_before_us]
    old = [] if len(young) == len(waiting) else [w for w in waiting if w.job.eligible_us < born_before_us]
    old.sort(key=lambda w: (w.job.eligible_us, w.sequence))
    young.sort(key=key)
    return old + young


def _shortest(waiting: PendingJob) -> float:
    return waiting.prediction.high_us


def _merit(waiting: PendingJob) -> float:
    """Largest merit first."""
    return -waiting.prediction.merit_for_width(waiting.job.gpus)
