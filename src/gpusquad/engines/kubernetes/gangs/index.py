"""Which pod belongs to which gang. Pure; part of the registry."""

from __future__ import annotations

from collections.abc import Callable

from gpusquad.engines.kubernetes.gangs.operations import ClusterOperations
from gpusquad.engines.kubernetes.gangs.pod_gang import PodGang, node_name
from gpusquad.engines.kubernetes.gangs.recovery import GangRecovery, incarnation_of, resumed
from gpusquad.engines.kubernetes.gangs.unplaced import is_usable
from gpusquad.engines.kubernetes.parse.groups import ALONE, GroupKey, Membership, single_membership
from gpusquad.engines.kubernetes.parse.ids import job_id
from gpusquad.kube.names import JOB
from gpusquad.kube.objects import Object, annotations_of, uid_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job

_MAX_NAMES = 20_000


class GangIndex:
    """Every pod is in at most one gang. The registry reviews each gang that has changed."""

    def __init__(
        self,
        membership: Callable[[Object], Membership],
        owner_of: Callable[[Object], Object | None],
        operations: ClusterOperations,
        review: Callable[[PodGang, str], None],
    ) -> None:
        """``review`` gets the gang and the UID of the changed pod, if it is a single one."""
        self.gangs: dict[GroupKey, PodGang] = {}
        self._membership = membership
        self._owner_of = owner_of
        self._operations = operations
        self._review = review
        self._key_of: dict[str, GroupKey] = {}
        self._refused: dict[str, str] = {}
        """Pods whose group cannot be parsed, and why."""
        self._incarnations: dict[GroupKey, int] = {}
        """Of groups that were jobs and have no pods left."""
        self._recovery: GangRecovery | None = GangRecovery()
        """Until the service has restored its state."""

    def gang_of(self, uid: str) -> PodGang | None:
        key = self._key_of.get(uid)
        return self.gangs.get(key) if key is not None else None

    def read(self, pod: Object, now: PodGang | None) -> None:
        """Puts the pod into the group that it names."""
        uid = uid_of(pod)
        if now is not None and now.single_pod == uid:
            self._add(now, pod)
            return
        try:
            member = self._membership(pod)
        except Invalid as error:
            self._refuse(pod, now, str(error))
            return
        self._refused.pop(uid, None)
        if now is not None and now.member.key != member.key:
            if self._stays(now, pod):
                return
            self.leave(uid)
        gang = self.gangs.get(member.key)
        if gang is None:
            gang = self.gangs[member.key] = PodGang(member, incarnation=self._incarnations.pop(member.key, 0))
        gang.member = member
        gang.regrouped.discard(uid)
        self._add(gang, pod)

    def _stays(self, gang: PodGang, pod: Object) -> bool:
        """A pod that holds a gang's cards stays in the gang, whatever group it names."""
        uid = uid_of(pod)
        if not gang.has(uid):
            return False
        gang.regrouped.add(uid)
        self._add(gang, pod)
        return True

    def _refuse(self, pod: Object, now: PodGang | None, why: str) -> None:
        uid = uid_of(pod)
        if now is not None and self._stays(now, pod):
            return
        self.leave(uid)
        if self._refused.get(uid) != why:
            self._refused[uid] = why
            unread = single_membership(Membership(GroupKey("", "", "", ""), 1, 1, False), pod)
            self._operations.report_unschedulable(PodGang(unread, pods={uid: pod}), why)

    def _add(self, gang: PodGang, pod: Object) -> None:
        self._key_of[uid_of(pod)] = gang.member.key
        self.put(gang, pod)
        if self._recovery is not None:
            self._recovery.note(gang, pod)
            gang = self._note_incarnation(gang, pod)
        self._review(gang, uid_of(pod))

    def put(self, gang: PodGang, pod: Object) -> None:
        uid = uid_of(pod)
        gang.pods[uid] = pod
        gang.owner = self._owner_of(pod) or gang.owner
        if is_usable(pod) and uid not in gang.refused_pods:
            gang.usable.add(uid)
        else:
            gang.usable.discard(uid)

    def _note_incarnation(self, gang: PodGang, pod: Object) -> PodGang:
        """A pod that was bound before the engine started names the job that it was bound for."""
        key, job = gang.member.key, annotations_of(pod).get(JOB, "") if node_name(pod) else ""
        if not job or not key.uid or gang.single_pod or job_id(key, gang.incarnation) == job:
            return gang
        if key.kind != ALONE and job_id(single_membership(gang.member, pod).key) == job:
            self.split_off(gang, pod)
        else:
            gang.incarnation = max(gang.incarnation, incarnation_of(key, job) or 0)
        return gang

    def leave(self, uid: str) -> None:
        key = self._key_of.pop(uid, None)
        gang = self.gangs.get(key) if key is not None else None
        if gang is not None and gang.pods.pop(uid, None) is not None:
            gang.usable.discard(uid)
            gang.regrouped.discard(uid)
            self._review(gang, "")

    def gone(self, uid: str) -> None:
        self._refused.pop(uid, None)
        self.leave(uid)

    def split_off(self, gang: PodGang, pod: Object) -> None:
        """A pod that its group has no rank for becomes a job of its own."""
        member, uid = single_membership(gang.member, pod), uid_of(pod)
        gang.pods.pop(uid)
        gang.usable.discard(uid)
        single = self.gangs[member.key] = PodGang(member, single_pod=uid)
        self._add(single, pod)

    def drop(self, gang: PodGang) -> None:
        """Removes an empty gang. A later gang of the same name is another job."""
        key = gang.member.key
        del self.gangs[key]
        if gang.incarnation and key.kind != ALONE:
            self._incarnations[key] = gang.incarnation
            if len(self._incarnations) > _MAX_NAMES:
                del self._incarnations[next(iter(self._incarnations))]

    def renew(self, gang: PodGang) -> PodGang:
        """Replaces the gang by a new object, so that pending operations for the old one have no effect."""
        following = PodGang(
            gang.member, gang.pods, incarnation=gang.incarnation + 1, owner=gang.owner, single_pod=gang.single_pod,
            regrouped=gang.regrouped, usable=gang.usable, refused_pods=gang.refused_pods,
        )  # fmt: skip
        self.gangs[gang.member.key] = following
        gang.job, gang.pods, gang.usable, gang.regrouped = None, {}, set(), set()
        return following

    # -- after a restart of the service ----------------------------------------------------------------------------

    def find(self, job: Job) -> PodGang | None:
        """The gang of a job that the service has stored."""
        if self._recovery is None:
            return None
        found = self._recovery.group(job)
        gang = self.gangs.get(found[0]) if found is not None else None
        if found is not None and gang is not None and gang.pods:
            gang.incarnation = found[1]
            return gang
        single = self._recovery.single(job.id)
        group = self.gangs.get(single[0]) if single is not None else None
        if single is not None and group is not None and single[1] in group.pods and not group.has(single[1]):
            self.split_off(group, group.pods[single[1]])
            return self.gang_of(single[1])
        return self._of_bound(job)

    def _of_bound(self, job: Job) -> PodGang | None:
        """The group cannot be parsed, but its pods name their job."""
        pods = self._bound_for(job)
        if not pods:
            return None
        gang = PodGang(resumed(job, pods))
        self.gangs[gang.member.key] = gang
        return gang

    def _bound_for(self, job: Job) -> list[Object]:
        """Bound pods that are in no other gang's ranks."""
        bound = self._recovery.bound(job.id) if self._recovery is not None else ()
        gangs = {uid: self.gang_of(uid) for uid in bound}
        return [gang.pods[uid] for uid, gang in gangs.items() if gang is not None and not gang.has(uid)]

    def claim_bound(self, gang: PodGang, job: Job) -> None:
        """Moves bound pods of the job that now name another group into this gang."""
        for pod in self._bound_for(job):
            uid = uid_of(pod)
            if self.gang_of(uid) is not gang:
                self.leave(uid)
                self._key_of[uid] = gang.member.key
                self.put(gang, pod)
                gang.regrouped.add(uid)

    def open(self) -> None:
        """The service has restored its state."""
        self._recovery = None
