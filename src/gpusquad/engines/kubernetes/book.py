"""All gangs of the cluster that are ours to place. Pure: it hears of pods and decisions, and tells its hands to act.

It lives in one thread. What takes time (binding, deleting, asking an owner) is begun by a hand and heard of later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpusquad.core.ports import EngineEnded, EngineStarted, Report
from gpusquad.core.sightings import Found, Place, Refound, Sighting, Withdrawn
from gpusquad.engines.kubernetes.gang import FAILED, Gang, Rank, is_unbound, node_name
from gpusquad.engines.kubernetes.objects import JOB, Object, annotations_of, controller_of, is_leaving, uid_of
from gpusquad.engines.kubernetes.reading.describing import created_us
from gpusquad.engines.kubernetes.reading.gangs import Formed, Incomplete, gang_of
from gpusquad.engines.kubernetes.reading.groups import GroupKey, Membership, by_itself
from gpusquad.engines.kubernetes.reading.ids import job_id
from gpusquad.engines.kubernetes.reading.pins import pin_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request

_MOST_LIVES = 64
_log = logging.getLogger(__name__)


class Hands(Protocol):
    """What the book cannot do itself. None of these waits."""

    def report(self, said: Report | Sighting) -> None: ...
    def bind(self, gang: Gang, rank: Rank, pod: Object) -> None:
        """The answer comes as ``Book.bound`` or ``Book.not_bound``."""
        ...

    def delete(self, pod: Object, why: str, grace_s: float | None) -> None: ...
    def delete_owner(self, gang: Gang, why: str) -> None: ...
    def ask_owner(self, gang: Gang) -> None:
        """The answer comes as ``Book.owner_said``."""
        ...

    def obstacle(self, gang: Gang, places: Sequence[Place]) -> str:
        """Why the gang may not go there after all, as far as can be seen now; empty: nothing is in the way."""
        ...

    def watch_start(self, gang: Gang) -> None:
        """If it has not started in time: ``Book.start_timed_out``."""
        ...

    def lacks(self, gang: Gang, what: str) -> None:
        """The gang cannot be considered yet, or at all; its users want to know."""
        ...


@dataclass
class Book:
    """Hears of pods by ``seen`` and ``gone``, of decisions by ``launch``, ``resume``, ``stop`` and ``withdraw``."""

    membership: Callable[[Object], Membership]
    ask: Callable[[Object], Request]
    check: Callable[[Formed], Invalid | None]
    """Why the members of a gang cannot be placed together."""
    hands: Hands
    gangs: dict[GroupKey, Gang] = field(default_factory=dict)
    by_job: dict[str, Gang] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._key_of: dict[str, GroupKey] = {}
        self._asked: dict[str, Request] = {}
        self._open = False
        """Until the service has said what it remembers, nothing is told and nothing done."""

    # -- pods ------------------------------------------------------------------------------------------------------

    def seen(self, pod: Object) -> None:
        """A pod of ours is new, or another than before."""
        uid = uid_of(pod)
        self._asked.pop(uid, None)
        before = self._key_of.get(uid)
        if before in self.gangs and self.gangs[before].alone_for == uid:
            self._take_in(self.gangs[before], pod)  # it was surplus to its group and has its own job
            return
        try:
            membership = self.membership(pod)
        except Invalid as error:
            self._refuse_pod(pod, str(error))
            return
        if before is not None and before != membership.key:
            self._leave(before, uid)
        gang = self.gangs.get(membership.key)
        if gang is None:
            gang = self.gangs[membership.key] = Gang(membership)
        gang.member = membership
        self._take_in(gang, pod)

    def gone(self, pod: Object) -> None:
        uid = uid_of(pod)
        self._asked.pop(uid, None)
        key = self._key_of.get(uid)
        if key is not None:
            self._leave(key, uid)

    def holds(self, uid: str) -> bool:
        """Whether the pod has a rank of a placed gang: what it takes is counted as the gang's."""
        gang = self.gangs.get(self._key_of[uid]) if uid in self._key_of else None
        return gang is not None and gang.placed and gang.has(uid)

    def _take_in(self, gang: Gang, pod: Object) -> None:
        uid = uid_of(pod)
        self._key_of[uid] = gang.member.key
        gang.pods[uid] = pod
        gang.owner = controller_of(pod) or gang.owner
        if not gang.life and node_name(pod):
            gang.life = _life_of(gang.member.key, pod)
        self._review(gang)

    def _leave(self, key: GroupKey, uid: str) -> None:
        self._key_of.pop(uid, None)
        gang = self.gangs.get(key)
        if gang is not None and gang.pods.pop(uid, None) is not None:
            self._review(gang)

    def _refuse_pod(self, pod: Object, why: str) -> None:
        gang = Gang(by_itself_unread(pod), pods={uid_of(pod): pod})
        self.hands.lacks(gang, why)

    # -- what follows ----------------------------------------------------------------------------------------------

    def _review(self, gang: Gang) -> None:
        if not self._open:
            return
        if gang.placed:
            self._review_placed(gang)
        else:
            self._review_waiting(gang)
        if not gang.pods and not gang.placed and gang.job is None:
            self.gangs.pop(gang.member.key, None)

    def _review_waiting(self, gang: Gang) -> None:
        found = gang_of(gang.member, gang.pods.values(), ask=self._ask, life=gang.life)
        for pod in () if isinstance(found, Invalid) else found.surplus:
            self._make_alone(gang, pod)
        if isinstance(found, Formed) and gang.job is None:
            found = self.check(found) or found
        if isinstance(found, Formed):
            gang.waits_for = ""
            self._formed(gang, found)
        elif isinstance(found, Incomplete):
            self._incomplete(gang, found)
        else:
            self._drop_job(gang, f"it cannot be scheduled: {found}")
            self.hands.lacks(gang, str(found))

    def _formed(self, gang: Gang, found: Formed) -> None:
        bound = [pod for pod in found.members if node_name(pod)]
        if not bound:
            self._tell_found(gang, Found(found.job))
        elif len(bound) == len(found.members):
            self._adopt(gang, found)
        else:
            # Half a gang that nobody remembers deciding: it starts whole or not at all.
            for pod in bound:
                self.hands.delete(pod, "its gang was only partly placed and starts again whole", None)

    def _tell_found(self, gang: Gang, found: Found) -> None:
        if gang.job is None:
            gang.job = found.job
            self.by_job[found.job.id] = gang
            self.hands.report(found)

    def _adopt(self, gang: Gang, found: Formed) -> None:
        places = [place_of(pod) for pod in found.members]
        gang.place(0, found.job, places)
        for rank, pod in zip(gang.ranks, found.members, strict=True):
            rank.put(uid_of(pod))
        self.by_job[found.job.id] = gang
        gang.started = True
        self.hands.report(Found(found.job, tuple(places), max(map(started_us, found.members))))
        self._review_placed(gang)

    def _incomplete(self, gang: Gang, found: Incomplete) -> None:
        if gang.job is not None and not gang.member.remakes:
            self._drop_job(gang, f"its pods were deleted; it waits for {found.waits_for}" if gang.pods else "deleted")
        elif gang.job is not None and not gang.pods:
            self.hands.ask_owner(gang)
        if gang.pods and found.waits_for != gang.waits_for:
            gang.waits_for = found.waits_for
            self.hands.lacks(gang, f"waits for {found.waits_for}")

    def _make_alone(self, gang: Gang, pod: Object) -> None:
        """Surplus to its group: it comes as a job of its own."""
        member = by_itself(gang.member, pod)
        uid = uid_of(pod)
        gang.pods.pop(uid)
        single = self.gangs[member.key] = Gang(member, alone_for=uid)
        self._take_in(single, pod)

    def _review_placed(self, gang: Gang) -> None:
        gang.settle()
        if gang.stopping:
            self._go_on_stopping(gang)
            return
        if gang.has_emptied:
            self._all_ended(gang)
            return
        if not gang.started and any(rank.end and rank.end != "Succeeded" for rank in gang.ranks):
            end = gang.first_end
            self._fail_start(gang, f"a pod failed before all had started: {end.cause if end else 'unknown'}")
            return
        requests = {uid: self._ask(pod) for uid, pod in gang.pods.items() if is_unbound(pod)}
        for rank, pod in gang.seat(requests):
            self.hands.bind(gang, rank, pod)
        if not gang.started and gang.all_run:
            gang.started = True
            self.hands.report(EngineStarted(_id(gang), gang.attempt, ()))

    def _all_ended(self, gang: Gang) -> None:
        if gang.has_succeeded:
            self._over(gang, "succeeded", "")
        elif gang.member.remakes:
            self.hands.ask_owner(gang)
        elif all(rank.end == "deleted" for rank in gang.ranks):
            self._over(gang, "stopped", "its pods were deleted")
        else:
            self._over(gang, "failed", _cause(gang))

    def _over(self, gang: Gang, how: str, cause: str) -> None:
        """For good: whatever comes under this name later is another job."""
        job = _id(gang)
        self.hands.report(EngineEnded(job, gang.attempt, how, cause, gang.first_end))  # type: ignore[arg-type]
        gang.unplace()
        if how == "stopped":
            self.hands.report(Withdrawn(job, cause))
        self._forget_job(gang)
        self._review(gang)

    def _drop_job(self, gang: Gang, cause: str, how: str = "cancelled") -> None:
        if gang.job is not None:
            self.hands.report(Withdrawn(_id(gang), cause, how))
            self._forget_job(gang)

    def _forget_job(self, gang: Gang) -> None:
        self.by_job.pop(_id(gang), None)
        gang.job = None
        gang.life += 1

    # -- starting and stopping -------------------------------------------------------------------------------------

    def launch(self, job: str, attempt: int, places: Sequence[Place]) -> None:
        """The service has decided. Pods that are not there yet are bound when they come."""
        gang = self.by_job.get(job)
        if gang is None or gang.job is None or gang.placed:
            self.hands.report(EngineEnded(job, attempt, "lost", "its pods are not there", never_started=True))
            return
        in_the_way = self.hands.obstacle(gang, places)
        if in_the_way:
            self.hands.report(EngineEnded(job, attempt, "lost", in_the_way, never_started=True))
            return
        gang.place(attempt, gang.job, places)
        self.hands.watch_start(gang)
        self._review(gang)

    def bound(self, gang: Gang, attempt: int, pod: Object) -> None:
        """The API server has taken the binding; the pod itself is heard of by ``seen``."""
        for rank in gang.ranks:
            if rank.pod == uid_of(pod):
                rank.binding = False

    def not_bound(self, gang: Gang, attempt: int, pod: Object, why: str) -> None:
        if gang.placed and gang.attempt == attempt and not gang.stopping:
            self._fail_start(gang, why)

    def start_timed_out(self, gang: Gang, attempt: int, after_s: float) -> None:
        if gang.placed and gang.attempt == attempt and not gang.started and not gang.stopping:
            missing = sum(not rank.pod for rank in gang.ranks)
            what = f"{missing} pods never came" if missing else "not all of its pods run"
            self._fail_start(gang, f"not started after {after_s:g} s: {what}")

    def _fail_start(self, gang: Gang, why: str) -> None:
        """A gang starts whole or not at all: the rest is released."""
        gang.failed_start = True
        self._begin_stopping(gang, why, None)

    def stop(self, job: str, attempt: int, cause: str, grace_s: float | None) -> None:
        gang = self.by_job.get(job)
        if gang is None or not gang.placed or gang.attempt != attempt:
            self.hands.report(EngineEnded(job, attempt, "lost", "its pods are not there"))
        elif not gang.stopping:
            self._begin_stopping(gang, cause, grace_s)

    def withdraw(self, job: str, cause: str) -> None:
        """Its user does not want it any more: nobody is to make its pods again."""
        gang = self.by_job.get(job)
        if gang is not None:
            self.hands.delete_owner(gang, cause)
            for pod in gang.live():
                self.hands.delete(pod, cause, None)

    def _begin_stopping(self, gang: Gang, why: str, grace_s: float | None) -> None:
        gang.stopping, gang.grace_s = why, grace_s
        self._go_on_stopping(gang)

    def _go_on_stopping(self, gang: Gang) -> None:
        """Until no pod is left on a node, those included that are only now being bound."""
        bound = gang.bound()
        for pod in bound:
            if not is_leaving(pod) and uid_of(pod) not in gang.deleted:
                gang.deleted.add(uid_of(pod))
                self.hands.delete(pod, gang.stopping, gang.grace_s)
        if bound or any(rank.binding for rank in gang.ranks):
            return
        never, cause = gang.failed_start, gang.stopping
        how = (
            "succeeded"
            if gang.has_succeeded
            else "stopped"
            if not never
            else "lost"
            if gang.member.remakes
            else "failed"
        )
        report = EngineEnded(_id(gang), gang.attempt, how, cause, gang.first_end, never_started=never)
        gang.unplace()
        if how in ("failed", "succeeded"):
            self._forget_job(gang)
        self.hands.report(report)
        self._review(gang)

    def owner_said(self, gang: Gang, verdict: str) -> None:
        """Of a gang without live pods: its owner is over (``succeeded``, ``failed``, ``gone``) or ``goes on``."""
        if gang.job is None or gang.live():
            return
        if gang.placed and not gang.stopping and gang.has_emptied:
            if verdict == "goes on":
                job, attempt = _id(gang), gang.attempt
                first = gang.first_end
                gang.unplace()
                self.hands.report(EngineEnded(job, attempt, "lost", "its pods ended and are made again", first))
            else:
                how = {"gone": "stopped"}.get(verdict, verdict)
                self._over(gang, how, "its owner was deleted" if verdict == "gone" else _cause(gang))
        elif not gang.placed and verdict != "goes on":
            self._drop_job(gang, "its owner is over" if verdict != "gone" else "its owner was deleted")
            self._review(gang)

    # -- after a start of the service ------------------------------------------------------------------------------

    def resume(self, job: str, attempt: int, places: Sequence[Place]) -> None:
        """What the service remembers having decided. Pods on their nodes take their ranks; the rest is bound now."""
        gang, formed = self._remembered(job, len(places))
        if gang is None or formed is None:
            self.hands.report(EngineEnded(job, attempt, "lost", "its pods are gone"))
            return
        gang.place(attempt, formed, places)
        self.by_job[job] = gang
        for pod in gang.bound():
            self._reseat(gang, pod)
        self.hands.watch_start(gang)

    def _remembered(self, job: str, tasks: int) -> tuple[Gang, Job] | tuple[None, None]:
        for gang in self.gangs.values():
            for life in range(gang.life, gang.life + 2):
                if gang.pods and gang.member.size is not None and job_id(gang.member.key, life) == job:
                    found = gang_of(gang.member, gang.pods.values(), ask=self._ask, life=life)
                    if isinstance(found, Formed) and found.job.tasks == tasks:
                        gang.life = life
                        return gang, found.job
        return None, None

    def _reseat(self, gang: Gang, pod: Object) -> None:
        place = place_of(pod)
        rank = next((r for r in gang.ranks if not r.pod and r.place == place), None)
        if rank is not None:
            rank.put(uid_of(pod))

    def open(self) -> None:
        """From here on everything is told at once."""
        self._open = True
        for gang in list(self.gangs.values()):
            self._review(gang)
        self.hands.report(Refound(frozenset(self.by_job)))

    def another_life(self, job: str) -> None:
        """That job is over, says the service, and yet its group has pods: they are another job."""
        gang = self.by_job.get(job)
        if gang is not None and not gang.placed and gang.life < _MOST_LIVES:
            self._forget_job(gang)
            self._review(gang)

    def _ask(self, pod: Object) -> Request:
        uid = uid_of(pod)
        request = self._asked.get(uid)
        if request is None:
            request = self._asked[uid] = self.ask(pod)
        return request


def place_of(pod: Object) -> Place:
    """Where a bound pod is, by its pin."""
    try:
        pinned = pin_of(pod) or {}
    except Invalid:
        pinned = {}
    cards = dict.fromkeys(card for cards in pinned.values() for card in cards)
    return Place(node_name(pod), tuple(cards))


def started_us(pod: Object) -> int:
    text = (pod.get("status") or {}).get("startTime")
    return created_us({"metadata": {"creationTimestamp": text}}) if text else created_us(pod)


def by_itself_unread(pod: Object) -> Membership:
    """For a pod whose group cannot be read."""
    return by_itself(Membership(GroupKey("", "", "", ""), 1, 1, False), pod)


def _life_of(key: GroupKey, pod: Object) -> int:
    """Which of its lives the job is in that a bound pod belongs to."""
    job = annotations_of(pod).get(JOB, "")
    return next((life for life in range(_MOST_LIVES) if key.uid and job_id(key, life) == job), 0) if job else 0


def _id(gang: Gang) -> str:
    assert gang.job is not None
    return gang.job.id


def _cause(gang: Gang) -> str:
    failed = sum(rank.end == FAILED for rank in gang.ranks)
    first = gang.first_end
    code = f", the first with exit code {first.exit_code}" if first and first.exit_code is not None else ""
    return f"{failed} of {len(gang.ranks)} pods failed{code}" + (f": {first.cause}" if first and first.cause else "")
