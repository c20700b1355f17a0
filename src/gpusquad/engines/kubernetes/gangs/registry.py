"""All gangs that gpusquad schedules. Pure: it gets pods and decisions, and requests operations on the cluster.

It is used in one thread. Slow operations (bind, delete, check an owner) are started here and answered later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpusquad.core.observed import GangFound, GangsResynced, GangWithdrawn, TaskLocation
from gpusquad.core.ports import AttemptEnded
from gpusquad.engines.kubernetes.gangs.index import GangIndex
from gpusquad.engines.kubernetes.gangs.operations import ClusterOperations
from gpusquad.engines.kubernetes.gangs.placed import PlacedGangs, id_of
from gpusquad.engines.kubernetes.gangs.pod_gang import PodGang
from gpusquad.engines.kubernetes.gangs.recovery import MAX_INCARNATIONS, restore_ranks
from gpusquad.engines.kubernetes.gangs.unplaced import UnplacedGangs, is_as_before, is_status_alone
from gpusquad.engines.kubernetes.parse.gangs import CompleteGang
from gpusquad.engines.kubernetes.parse.groups import ALONE, GroupKey, Membership
from gpusquad.engines.kubernetes.parse.ids import job_id
from gpusquad.kube.names import SCHEDULER
from gpusquad.kube.objects import Object, controller_of, uid_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request
from gpusquad.model.sharing_params import SharingParams
from gpusquad.model.units import show_count

_NOT_THERE = "its pods do not exist"
_MAX_REFUSALS = 5


class GangRegistry:
    """Gets pods by ``seen`` and ``gone``, and decisions by ``launch``, ``resume``, ``stop`` and ``withdraw``."""

    def __init__(
        self,
        membership: Callable[[Object], Membership],
        request_of: Callable[[Object], Request],
        check: Callable[[CompleteGang], Invalid | None],
        operations: ClusterOperations,
        owner_of: Callable[[Object], Object | None] = controller_of,
        scheduler: str = SCHEDULER,
    ) -> None:
        """``check`` returns why the members of a gang cannot be placed together; ``owner_of`` the owner that creates
        its pods."""
        self.by_job: dict[str, PodGang] = {}
        self._parse_request = request_of
        self._operations = operations
        self._requests: dict[str, Request] = {}
        self._open = False
        """The service has restored its state. Before that, nothing is reported and nothing is done."""
        self._index = GangIndex(membership, owner_of, operations, self._review)
        self._placed = PlacedGangs(operations, self._request_of, self)
        self._unplaced = UnplacedGangs(operations, self._request_of, check, self, scheduler)

    @property
    def gangs(self) -> Mapping[GroupKey, PodGang]:
        return self._index.gangs

    # -- pods ------------------------------------------------------------------------------------------------------

    def seen(self, pod: Object) -> None:
        """A pod is new or has changed. The same object again: an object that its group is parsed from has changed."""
        uid = uid_of(pod)
        gang = self._index.gang_of(uid)
        before = gang.pods[uid] if gang is not None else None
        if before is None or pod is before or not is_status_alone(before, pod):
            self._requests.pop(uid, None)
            self._index.read(pod, gang)
        elif gang is not None:
            gang.pods[uid] = pod
            if not is_as_before(before, pod):
                self._index.put(gang, pod)
                self._review(gang, uid)

    def gone(self, pod: Object) -> None:
        uid = uid_of(pod)
        self._requests.pop(uid, None)
        self._index.gone(uid)

    def holds(self, uid: str) -> bool:
        """The pod has a rank in a placed gang: its usage counts as the gang's."""
        gang = self._index.gang_of(uid)
        return gang is not None and gang.placed and not gang.disowned and gang.has(uid)

    def pods_in_ranks(self, job: str | None = None) -> list[str]:
        """UIDs of pods that have ranks: of one job, or of all."""
        gangs = self.by_job.values() if job is None else filter(None, [self.by_job.get(job)])
        return [uid for gang in gangs if gang.placed and not gang.disowned for uid in gang.ranks_by_pod]

    def pod_sharing(self, uid: str) -> tuple[Object, SharingParams] | None:
        """See ``PodGang.pod_sharing``."""
        gang = self._index.gang_of(uid)
        return None if gang is None else gang.pod_sharing(uid)

    def rules_in_use(self) -> set[str]:
        """Names of placement rules that jobs, or pods without a job, refer to."""
        asked = {request.where for request in self._requests.values()}
        return asked.union(r.where for gang in self.by_job.values() if gang.job for r, _ in gang.job.groups)

    # -- consequences ----------------------------------------------------------------------------------------------

    def _review(self, gang: PodGang, changed: str = "") -> None:
        """``changed``: UID of the one pod that has changed."""
        if gang.placed and changed and gang.is_unaffected_by(changed):
            return
        if self._open and gang.placed:
            self._placed.review(gang)
        elif self._open:
            self._unplaced.review(gang)
        now = self.gangs.get(gang.member.key)
        if now is not None and not now.pods and not now.placed and now.job is None:
            self._index.drop(now)

    def split_off(self, gang: PodGang, pod: Object) -> None:
        self._index.split_off(gang, pod)

    def track_job(self, gang: PodGang) -> None:
        """The service gets to know it next."""
        self.by_job[id_of(gang)] = gang

    def gang_ended(self, gang: PodGang, how: str, cause: str) -> None:
        """The job has ended. A later gang of this name is another job."""
        job = id_of(gang)
        following = self._forget(gang)
        # The service may have stopped and requeued it just now. The report tells it that there is nothing to requeue.
        self._operations.report(GangWithdrawn(job, cause, "failed" if how == "failed" else "cancelled"))
        self._review_released(following)

    def requeue(self, gang: PodGang) -> None:
        self._review_released(self._forget(gang) if gang.is_finished else gang)

    def drop_job(self, gang: PodGang, cause: str, how: str = "cancelled") -> PodGang:
        """Withdraws a pending job."""
        if gang.job is None:
            return gang
        job = id_of(gang)
        following = self._forget(gang)
        self._operations.report(GangWithdrawn(job, cause, how))
        return following

    def _forget(self, gang: PodGang) -> PodGang:
        """Forgets its job. Remaining and later pods of its name are another job."""
        self.by_job.pop(id_of(gang), None)
        return self._index.renew(gang)

    def _review_released(self, gang: PodGang) -> None:
        """After it has left its nodes: pods that name another group can now move there."""
        regrouped, gang.regrouped = [uid for uid in gang.regrouped if uid in gang.pods], set()
        self._review(gang)
        for uid in regrouped:
            pod = self.gangs[gang.member.key].pods.get(uid) if gang.member.key in self.gangs else None
            if pod is not None:
                self._index.read(pod, self._index.gang_of(uid))

    # -- starting and stopping -------------------------------------------------------------------------------------

    def launch(self, job: str, attempt: int, places: Sequence[TaskLocation]) -> None:
        """Applies a decision of the service. Missing pods are bound when they appear."""
        gang = self.by_job.get(job)
        if gang is None or gang.job is None:
            self._unknown(job, attempt, never_started=True)
            return
        if gang.placed:
            if gang.attempt != attempt:
                self._lost(job, attempt, "another attempt of it is on its cards")
            return
        fits = len(places) == gang.job.tasks
        in_the_way = self._operations.obstacle(gang, places) if fits else "its pods have changed"
        if in_the_way:
            self._refuse_launch(gang, job, attempt, in_the_way)
            return
        gang.place(attempt, gang.job, places)
        gang.is_checked = True
        self._operations.watch_start(gang)
        self._review(gang)

    def change(self, job: str, attempt: int, sharing_params: SharingParams) -> None:
        """Changes the sharing parameters of its pods."""
        gang = self.by_job.get(job)
        if gang is not None and gang.placed and gang.attempt == attempt:
            gang.set_sharing(sharing_params)

    def node_gone(self, node: str) -> None:
        """Gangs with unfinished tasks on the node start again as a whole, elsewhere."""
        for gang in list(self.by_job.values()):
            if gang.placed and not gang.stopping and gang.works_on(node):
                self._placed.stop(gang, f"node {node} is gone", None)

    def bound(self, gang: PodGang, attempt: int, pod: Object) -> None:
        """The API server has accepted the binding. The bound pod comes by ``seen``."""
        rank = gang.ranks_by_pod.get(uid_of(pod))
        if rank is not None and gang.attempt == attempt:
            rank.binding, rank.on_node = False, True
            if gang.stopping:
                self._review(gang)

    def not_bound(self, gang: PodGang, attempt: int, pod: Object, why: str, pod_is_gone: bool = False) -> None:
        """The binding has certainly failed. If the pod is gone, another may take its place."""
        rank = gang.ranks_by_pod.get(uid_of(pod))
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
            are = "is" if missing == 1 else "are"
            what = f"{show_count(missing, 'pod')} {are} missing" if missing else "not all of its pods run"
            self._placed.fail_start(gang, f"not started after {after_s:g} s: {what}")

    def stop(self, job: str, attempt: int, cause: str, grace_s: float | None) -> None:
        gang = self.by_job.get(job)
        if gang is None:
            self._unknown(job, attempt)
        elif not gang.placed or gang.attempt != attempt:
            self._operations.report(AttemptEnded(job, attempt, "lost", _NOT_THERE))
        elif not gang.stopping:
            self._placed.stop(gang, cause, grace_s)

    def withdraw(self, job: str, cause: str) -> None:
        """The user has cancelled the job: delete its owner too, so that its pods are not recreated."""
        gang = self.by_job.get(job)
        if gang is not None:
            if gang.member.key.kind != ALONE:  # other pods of this owner are other jobs
                self._operations.delete_owner(gang, cause)
            for pod in gang.live():
                self._operations.delete(pod, cause, None)

    def finished(self, job: str) -> None:
        """The service has ended the job. Pods that its owner creates later are another job."""
        gang = self.by_job.get(job)
        if gang is None:
            return
        if gang.placed:
            gang.is_finished = True
            if not gang.stopping:
                self._placed.stop(gang, "the service has ended its job", None)
            return
        refused_pods = frozenset() if gang.was_placed else frozenset(gang.intended)
        following = self._forget(gang)
        following.refused_pods |= refused_pods
        following.usable -= refused_pods
        self._review(following)

    def begin_incarnation(self, job: str) -> None:
        """The service has ended that job, but its group still has pods: they become another job."""
        gang = self.by_job.get(job)
        if gang is None or gang.incarnation >= MAX_INCARNATIONS:
            return
        if not gang.placed:
            self._review(self._forget(gang))
        elif gang.adopted and gang.job is not None and gang.member.key.uid:
            del self.by_job[job]
            gang.incarnation += 1
            gang.job = replace(gang.job, id=job_id(gang.member.key, gang.incarnation))
            self._unplaced.report_adopted(gang)

    def owner_checked(self, gang: PodGang, verdict: str) -> None:
        """For a gang without live pods: its owner has ended (``succeeded``, ``failed``, ``gone``) or is ``active``."""
        if gang.job is None or gang.live():
            return
        if gang.placed:
            self._placed.owner_checked(gang, verdict)
        elif verdict != "active":
            cause = "its owner was deleted" if verdict == "gone" else "its owner has ended"
            self._review(self.drop_job(gang, cause, "failed" if verdict == "failed" else "cancelled"))

    def _lost(self, job: str, attempt: int, why: str) -> None:
        self._operations.report(AttemptEnded(job, attempt, "lost", why, never_started=True))

    def _refuse_launch(self, gang: PodGang, job: str, attempt: int, why: str) -> None:
        """The service decides again at once, since it gets to know what has changed. If it is refused again and again,
        what it knows is wrong, and it may only try again later."""
        gang.refusals += 1
        is_refused = gang.refusals <= _MAX_REFUSALS
        self._operations.report(AttemptEnded(job, attempt, "lost", why, never_started=True, is_refused=is_refused))
        for uid in gang.pods:
            self._requests.pop(uid, None)
        self._review(gang)
        now = self.by_job.get(job)
        if now is not None and now.job is not None and not now.placed:
            self._operations.report(GangFound(now.job))  # a change may have come while the service had started it

    def _unknown(self, job: str, attempt: int, never_started: bool = False) -> None:
        """The service decided to start or stop a job before it could apply the report that the job was withdrawn."""
        self._operations.report(AttemptEnded(job, attempt, "lost", _NOT_THERE, never_started=never_started))
        self._operations.report(GangWithdrawn(job, _NOT_THERE))

    # -- after a restart of the service ----------------------------------------------------------------------------

    def resume(self, job: Job, attempt: int, places: Sequence[TaskLocation], has_started: bool) -> None:
        """Restores a stored decision. Bound pods take their ranks; the others are bound now."""
        if self._open:
            self._agree(job.id, attempt, bool(places))
            return
        gang = self._index.find(job)
        if gang is None or gang.placed or len(places) != job.tasks:
            self._operations.report(AttemptEnded(job.id, attempt, "lost", "its pods are gone"))
            return
        gang.place(attempt, job, places)
        self.by_job[job.id] = gang
        self._index.claim_bound(gang, job)
        restore_ranks(gang, attempt)
        gang.started = has_started
        self._operations.recount_nodes({place.node for place in places})
        if not has_started:
            self._operations.watch_start(gang)

    def _agree(self, job: str, attempt: int, has_places: bool) -> None:
        """Sets the attempt of a gang that was found on its cards. Without places the service cannot count it there."""
        gang = self.by_job.get(job)
        if gang is None:
            self._unknown(job, attempt)
        elif gang.placed and gang.adopted:
            gang.attempt = attempt
            if gang.disowned == has_places:
                gang.disowned = not has_places
                self._operations.recount_nodes({rank.place.node for rank in gang.ranks if rank.place is not None})
        elif not gang.placed:
            self._operations.report(AttemptEnded(job, attempt, "lost", _NOT_THERE))

    def open(self) -> None:
        """From here on every change is reported at once."""
        self._open = True
        self._index.open()
        for gang in list(self.gangs.values()):
            if self.gangs.get(gang.member.key) is gang:
                self._review(gang)
        self._operations.report(GangsResynced(frozenset(self.by_job)))

    def _request_of(self, pod: Object) -> Request:
        uid = uid_of(pod)
        request = self._requests.get(uid)
        if request is None:
            request = self._requests[uid] = self._parse_request(pod)
        return request
