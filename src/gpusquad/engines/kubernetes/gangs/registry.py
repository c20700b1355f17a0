"""All gangs of the cluster that are ours to place. Pure: it hears of pods and decisions, and tells its hands to act.

It lives in one thread. What takes time (binding, deleting, asking an owner) is begun by a hand and heard of later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpusquad.core.observed import GangsResynced, GangWithdrawn, TaskLocation
from gpusquad.core.ports import AttemptEnded
from gpusquad.engines.kubernetes.gangs.index import GangIndex
from gpusquad.engines.kubernetes.gangs.operations import ClusterOperations
from gpusquad.engines.kubernetes.gangs.placed import PlacedGangs, id_of
from gpusquad.engines.kubernetes.gangs.pod_gang import PodGang
from gpusquad.engines.kubernetes.gangs.recovery import MOST_LIVES, reseat
from gpusquad.engines.kubernetes.gangs.unplaced import UnplacedGangs, is_as_before, is_status_alone
from gpusquad.engines.kubernetes.parse.gangs import CompleteGang
from gpusquad.engines.kubernetes.parse.groups import ALONE, GroupKey, Membership
from gpusquad.engines.kubernetes.parse.ids import job_id
from gpusquad.kube.names import SCHEDULER
from gpusquad.kube.objects import Object, controller_of, uid_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request
from gpusquad.model.sharing_params import SharingParams

_NOT_THERE = "its pods are not there"


class GangRegistry:
    """Hears of pods by ``seen`` and ``gone``, of decisions by ``launch``, ``resume``, ``stop`` and ``withdraw``."""

    def __init__(
        self,
        membership: Callable[[Object], Membership],
        ask: Callable[[Object], Request],
        check: Callable[[CompleteGang], Invalid | None],
        hands: ClusterOperations,
        maker: Callable[[Object], Object | None] = controller_of,
        scheduler: str = SCHEDULER,
    ) -> None:
        """``check`` says why the members of a gang cannot be placed together; ``maker`` whom to ask for more pods."""
        self.by_job: dict[str, PodGang] = {}
        self._ask_anew = ask
        self._hands = hands
        self._asked: dict[str, Request] = {}
        self._open = False
        """Until the service has said what it remembers, nothing is told and nothing done."""
        self._roll = GangIndex(membership, maker, hands, self._review)
        self._placed = PlacedGangs(hands, self._ask, self)
        self._gathering = UnplacedGangs(hands, self._ask, check, self, scheduler)

    @property
    def gangs(self) -> Mapping[GroupKey, PodGang]:
        return self._roll.gangs

    # -- pods ------------------------------------------------------------------------------------------------------

    def seen(self, pod: Object) -> None:
        """A pod of ours is new, or another than before; the very same object: what its group is read from changed."""
        uid = uid_of(pod)
        gang = self._roll.gang_of(uid)
        before = gang.pods[uid] if gang is not None else None
        if before is None or pod is before or not is_status_alone(before, pod):
            self._asked.pop(uid, None)
            self._roll.read(pod, gang)
        elif gang is not None:
            gang.pods[uid] = pod
            if not is_as_before(before, pod):
                self._roll.put(gang, pod)
                self._review(gang, uid)

    def gone(self, pod: Object) -> None:
        uid = uid_of(pod)
        self._asked.pop(uid, None)
        self._roll.gone(uid)

    def holds(self, uid: str) -> bool:
        """Whether the pod has a rank of a placed gang: what it takes is counted as the gang's."""
        gang = self._roll.gang_of(uid)
        return gang is not None and gang.placed and not gang.disowned and gang.has(uid)

    def seated(self, job: str | None = None) -> list[str]:
        """The uids of pods that have ranks: of one job, or of all."""
        gangs = self.by_job.values() if job is None else filter(None, [self.by_job.get(job)])
        return [uid for gang in gangs if gang.placed and not gang.disowned for uid in gang.seats]

    def worth_of(self, uid: str) -> tuple[Object, SharingParams] | None:
        """See ``Gang.worth_of``."""
        gang = self._roll.gang_of(uid)
        return None if gang is None else gang.worth_of(uid)

    def rules_in_use(self) -> set[str]:
        """The names of sets of nodes that jobs name, or pods that are no job yet."""
        asked = {request.where for request in self._asked.values()}
        return asked.union(r.where for gang in self.by_job.values() if gang.job for r, _ in gang.job.groups)

    # -- what follows ----------------------------------------------------------------------------------------------

    def _review(self, gang: PodGang, changed: str = "") -> None:
        """``changed``: the one pod that is different."""
        if gang.placed and changed and gang.goes_on(changed):
            return
        if self._open and gang.placed:
            self._placed.review(gang)
        elif self._open:
            self._gathering.review(gang)
        now = self.gangs.get(gang.member.key)
        if now is not None and not now.pods and not now.placed and now.job is None:
            self._roll.drop(now)

    def make_alone(self, gang: PodGang, pod: Object) -> None:
        self._roll.make_alone(gang, pod)

    def is_told(self, gang: PodGang) -> None:
        """The service hears of it next."""
        self.by_job[id_of(gang)] = gang

    def is_over(self, gang: PodGang, how: str, cause: str) -> None:
        """For good: whatever comes under this name later is another job."""
        job = id_of(gang)
        following = self._forget(gang)
        # The service may have told it to go just now, and queue it again: so it hears that there is nothing to queue.
        self._hands.report(GangWithdrawn(job, cause, "failed" if how == "failed" else "cancelled"))
        self._review_anew(following)

    def waits_again(self, gang: PodGang) -> None:
        self._review_anew(self._forget(gang) if gang.is_finished else gang)

    def drop_job(self, gang: PodGang, cause: str, how: str = "cancelled") -> PodGang:
        """A job that waited is there no more."""
        if gang.job is None:
            return gang
        job = id_of(gang)
        following = self._forget(gang)
        self._hands.report(GangWithdrawn(job, cause, how))
        return following

    def _forget(self, gang: PodGang) -> PodGang:
        """Its job. What is left of it, or comes under its name, is another one."""
        self.by_job.pop(id_of(gang), None)
        return self._roll.renew(gang)

    def _review_anew(self, gang: PodGang) -> None:
        """After it has left its places: pods that were kept with it may go where they say they belong."""
        strays, gang.strays = [uid for uid in gang.strays if uid in gang.pods], set()
        self._review(gang)
        for uid in strays:
            pod = self.gangs[gang.member.key].pods.get(uid) if gang.member.key in self.gangs else None
            if pod is not None:
                self._roll.read(pod, self._roll.gang_of(uid))

    # -- starting and stopping -------------------------------------------------------------------------------------

    def launch(self, job: str, attempt: int, places: Sequence[TaskLocation]) -> None:
        """The service has decided. Pods that are not there yet are bound when they come."""
        gang = self.by_job.get(job)
        if gang is None or gang.job is None:
            self._unknown(job, attempt, never_started=True)
            return
        if gang.placed:
            if gang.attempt != attempt:
                self._lost(job, attempt, "another attempt of it is on its cards")
            return
        fits = len(places) == gang.job.tasks
        in_the_way = self._hands.obstacle(gang, places) if fits else "it has changed meanwhile"
        if in_the_way:
            self._lost(job, attempt, in_the_way)
            return
        gang.place(attempt, gang.job, places)
        self._hands.watch_start(gang)
        self._review(gang)

    def change(self, job: str, attempt: int, sharing_params: SharingParams) -> None:
        """It is worth something else from now on."""
        gang = self.by_job.get(job)
        if gang is not None and gang.placed and gang.attempt == attempt:
            gang.change_worth(sharing_params)

    def node_gone(self, node: str) -> None:
        """Whoever has work there starts again whole, elsewhere."""
        for gang in list(self.by_job.values()):
            if gang.placed and not gang.stopping and gang.works_on(node):
                self._placed.stop(gang, f"node {node} is gone", None)

    def bound(self, gang: PodGang, attempt: int, pod: Object) -> None:
        """The API server has taken the binding; the pod itself is heard of by ``seen``."""
        rank = gang.seats.get(uid_of(pod))
        if rank is not None and gang.attempt == attempt:
            rank.binding, rank.on_node = False, True
            if gang.stopping:
                self._review(gang)

    def not_bound(self, gang: PodGang, attempt: int, pod: Object, why: str, pod_is_gone: bool = False) -> None:
        """For certain. If the pod is gone, another may come in its place."""
        rank = gang.seats.get(uid_of(pod))
        if rank is None or not gang.placed or gang.attempt != attempt:
            return
        rank.binding = False
        if gang.stopping:
            self._review(gang)
        elif not pod_is_gone:
            self._placed.fail_start(gang, why)

    def start_timed_out(self, gang: PodGang, attempt: int, after_s: float) -> None:
        if gang.placed and gang.attempt == attempt and not gang.started and not gang.stopping:
            missing = sum(not rank.pod for rank in gang.ranks)
            what = f"{missing} pods never came" if missing else "not all of its pods run"
            self._placed.fail_start(gang, f"not started after {after_s:g} s: {what}")

    def stop(self, job: str, attempt: int, cause: str, grace_s: float | None) -> None:
        gang = self.by_job.get(job)
        if gang is None:
            self._unknown(job, attempt)
        elif not gang.placed or gang.attempt != attempt:
            self._hands.report(AttemptEnded(job, attempt, "lost", _NOT_THERE))
        elif not gang.stopping:
            self._placed.stop(gang, cause, grace_s)

    def withdraw(self, job: str, cause: str) -> None:
        """Its user does not want it any more: nobody is to make its pods again."""
        gang = self.by_job.get(job)
        if gang is not None:
            if gang.member.key.kind != ALONE:  # other pods of its owner are other jobs, which nobody wants to end
                self._hands.delete_owner(gang, cause)
            for pod in gang.live():
                self._hands.delete(pod, cause, None)

    def finished(self, job: str) -> None:
        """The service has ended it for good, by its own judgement: what its owner makes anew is another job."""
        gang = self.by_job.get(job)
        if gang is None:
            return
        if gang.placed:
            gang.is_finished = True
            if not gang.stopping:
                self._placed.stop(gang, "its job is over, says the service", None)
            return
        spent = frozenset() if gang.was_placed else frozenset(gang.meant)
        following = self._forget(gang)
        following.spent |= spent
        following.able -= spent
        self._review(following)

    def another_life(self, job: str) -> None:
        """That job is over, says the service, and yet its group has pods: they are another job."""
        gang = self.by_job.get(job)
        if gang is None or gang.life >= MOST_LIVES:
            return
        if not gang.placed:
            self._review(self._forget(gang))
        elif gang.adopted and gang.job is not None and gang.member.key.uid:
            del self.by_job[job]
            gang.life += 1
            gang.job = replace(gang.job, id=job_id(gang.member.key, gang.life))
            self._gathering.tell_adopted(gang)

    def owner_said(self, gang: PodGang, verdict: str) -> None:
        """Of a gang without live pods: its owner is over (``succeeded``, ``failed``, ``gone``) or ``goes on``."""
        if gang.job is None or gang.live():
            return
        if gang.placed:
            self._placed.owner_said(gang, verdict)
        elif verdict != "goes on":
            cause = "its owner was deleted" if verdict == "gone" else "its owner is over"
            self._review(self.drop_job(gang, cause, "failed" if verdict == "failed" else "cancelled"))

    def _lost(self, job: str, attempt: int, why: str) -> None:
        self._hands.report(AttemptEnded(job, attempt, "lost", why, never_started=True))

    def _unknown(self, job: str, attempt: int, never_started: bool = False) -> None:
        """The service heard that it was withdrawn, and could not heed it: it had just decided to start or stop it."""
        self._hands.report(AttemptEnded(job, attempt, "lost", _NOT_THERE, never_started=never_started))
        self._hands.report(GangWithdrawn(job, _NOT_THERE))

    # -- after a start of the service ------------------------------------------------------------------------------

    def resume(self, job: Job, attempt: int, places: Sequence[TaskLocation], has_started: bool) -> None:
        """What the service remembers having decided. Pods on their nodes take their ranks; the rest is bound now."""
        if self._open:
            self._agree(job.id, attempt, bool(places))
            return
        gang = self._roll.find(job)
        if gang is None or gang.placed or len(places) != job.tasks:
            self._hands.report(AttemptEnded(job.id, attempt, "lost", "its pods are gone"))
            return
        gang.place(attempt, job, places)
        self.by_job[job.id] = gang
        self._roll.gather_bound(gang, job)
        reseat(gang, attempt)
        gang.started = has_started
        self._hands.look_again({place.node for place in places})
        if not has_started:
            self._hands.watch_start(gang)

    def _agree(self, job: str, attempt: int, has_places: bool) -> None:
        """Which attempt it is that was found on its cards. Without places: the service cannot count it there."""
        gang = self.by_job.get(job)
        if gang is None:
            self._unknown(job, attempt)
        elif gang.placed and gang.adopted:
            gang.attempt = attempt
            if gang.disowned == has_places:
                gang.disowned = not has_places
                self._hands.look_again({rank.place.node for rank in gang.ranks if rank.place is not None})
        elif not gang.placed:
            self._hands.report(AttemptEnded(job, attempt, "lost", _NOT_THERE))

    def open(self) -> None:
        """From here on everything is told at once."""
        self._open = True
        self._roll.open()
        for gang in list(self.gangs.values()):
            if self.gangs.get(gang.member.key) is gang:
                self._review(gang)
        self._hands.report(GangsResynced(frozenset(self.by_job)))

    def _ask(self, pod: Object) -> Request:
        uid = uid_of(pod)
        request = self._asked.get(uid)
        if request is None:
            request = self._asked[uid] = self._ask_anew(pod)
        return request
