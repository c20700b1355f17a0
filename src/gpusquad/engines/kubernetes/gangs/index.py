"""Which pod is of which gang. Pure, as the book is, which it is a part of."""

from __future__ import annotations

from collections.abc import Callable

from gpusquad.engines.kubernetes.gangs.operations import ClusterOperations
from gpusquad.engines.kubernetes.gangs.pod_gang import PodGang, node_name
from gpusquad.engines.kubernetes.gangs.recovery import GangRecovery, life_of, resumed
from gpusquad.engines.kubernetes.gangs.unplaced import is_able
from gpusquad.engines.kubernetes.parse.groups import ALONE, GroupKey, Membership, by_itself
from gpusquad.engines.kubernetes.parse.ids import job_id
from gpusquad.kube.names import JOB
from gpusquad.kube.objects import Object, annotations_of, uid_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job

_MOST_NAMES = 20_000


class GangIndex:
    """Every pod is in one gang at most. Whichever gang is another than before is reviewed by the book."""

    def __init__(
        self,
        membership: Callable[[Object], Membership],
        maker: Callable[[Object], Object | None],
        hands: ClusterOperations,
        review: Callable[[PodGang, str], None],
    ) -> None:
        """``review`` also hears which pod is different, if it is a single one."""
        self.gangs: dict[GroupKey, PodGang] = {}
        self._membership = membership
        self._maker = maker
        self._hands = hands
        self._review = review
        self._key_of: dict[str, GroupKey] = {}
        self._refused: dict[str, str] = {}
        """Pods whose group cannot be read, and why."""
        self._lives: dict[GroupKey, int] = {}
        """Of groups that were jobs and of which nothing is left."""
        self._remembered: GangRecovery | None = GangRecovery()
        """Until the service has said what it remembers."""

    def gang_of(self, uid: str) -> PodGang | None:
        key = self._key_of.get(uid)
        return self.gangs.get(key) if key is not None else None

    def read(self, pod: Object, now: PodGang | None) -> None:
        """Into the group that it says it is of."""
        uid = uid_of(pod)
        if now is not None and now.alone_for == uid:
            self._take_in(now, pod)
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
            gang = self.gangs[member.key] = PodGang(member, life=self._lives.pop(member.key, 0))
        gang.member = member
        gang.strays.discard(uid)
        self._take_in(gang, pod)

    def _stays(self, gang: PodGang, pod: Object) -> bool:
        """Whatever it says: while it is on the gang's cards it is the gang's."""
        uid = uid_of(pod)
        if not gang.has(uid):
            return False
        gang.strays.add(uid)
        self._take_in(gang, pod)
        return True

    def _refuse(self, pod: Object, now: PodGang | None, why: str) -> None:
        uid = uid_of(pod)
        if now is not None and self._stays(now, pod):
            return
        self.leave(uid)
        if self._refused.get(uid) != why:
            self._refused[uid] = why
            unread = by_itself(Membership(GroupKey("", "", "", ""), 1, 1, False), pod)
            self._hands.lacks(PodGang(unread, pods={uid: pod}), why)

    def _take_in(self, gang: PodGang, pod: Object) -> None:
        self._key_of[uid_of(pod)] = gang.member.key
        self.put(gang, pod)
        if self._remembered is not None:
            self._remembered.note(gang, pod)
            gang = self._note_life(gang, pod)
        self._review(gang, uid_of(pod))

    def put(self, gang: PodGang, pod: Object) -> None:
        uid = uid_of(pod)
        gang.pods[uid] = pod
        gang.owner = self._maker(pod) or gang.owner
        if is_able(pod) and uid not in gang.spent:
            gang.able.add(uid)
        else:
            gang.able.discard(uid)

    def _note_life(self, gang: PodGang, pod: Object) -> PodGang:
        """A pod that was bound before we came says which job it was bound for."""
        key, job = gang.member.key, annotations_of(pod).get(JOB, "") if node_name(pod) else ""
        if not job or not key.uid or gang.alone_for or job_id(key, gang.life) == job:
            return gang
        if key.kind != ALONE and job_id(by_itself(gang.member, pod).key) == job:
            self.make_alone(gang, pod)
        else:
            gang.life = max(gang.life, life_of(key, job) or 0)
        return gang

    def leave(self, uid: str) -> None:
        key = self._key_of.pop(uid, None)
        gang = self.gangs.get(key) if key is not None else None
        if gang is not None and gang.pods.pop(uid, None) is not None:
            gang.able.discard(uid)
            gang.strays.discard(uid)
            self._review(gang, "")

    def gone(self, uid: str) -> None:
        self._refused.pop(uid, None)
        self.leave(uid)

    def make_alone(self, gang: PodGang, pod: Object) -> None:
        """Surplus to its group: it comes as a job of its own."""
        member, uid = by_itself(gang.member, pod), uid_of(pod)
        gang.pods.pop(uid)
        gang.able.discard(uid)
        single = self.gangs[member.key] = PodGang(member, alone_for=uid)
        self._take_in(single, pod)

    def drop(self, gang: PodGang) -> None:
        """Nothing is left of it. If its name comes again it is another job than the last."""
        key = gang.member.key
        del self.gangs[key]
        if gang.life and key.kind != ALONE:
            self._lives[key] = gang.life
            if len(self._lives) > _MOST_NAMES:
                del self._lives[next(iter(self._lives))]

    def renew(self, gang: PodGang) -> PodGang:
        """Another object from here on: whoever still acts for the old one acts for nobody."""
        following = PodGang(
            gang.member, gang.pods, life=gang.life + 1, owner=gang.owner, alone_for=gang.alone_for,
            strays=gang.strays, able=gang.able, spent=gang.spent,
        )  # fmt: skip
        self.gangs[gang.member.key] = following
        gang.job, gang.pods, gang.able, gang.strays = None, {}, set(), set()
        return following

    # -- after a start of the service ------------------------------------------------------------------------------

    def find(self, job: Job) -> PodGang | None:
        """The gang that the service remembers under that job."""
        if self._remembered is None:
            return None
        found = self._remembered.group(job)
        gang = self.gangs.get(found[0]) if found is not None else None
        if found is not None and gang is not None and gang.pods:
            gang.life = found[1]
            return gang
        single = self._remembered.single(job.id)
        group = self.gangs.get(single[0]) if single is not None else None
        if single is not None and group is not None and single[1] in group.pods and not group.has(single[1]):
            self.make_alone(group, group.pods[single[1]])
            return self.gang_of(single[1])
        return self._of_bound(job)

    def _of_bound(self, job: Job) -> PodGang | None:
        """Its group is not to be read, but its pods say whose they are."""
        pods = self._bound_for(job)
        if not pods:
            return None
        gang = PodGang(resumed(job, pods))
        self.gangs[gang.member.key] = gang
        return gang

    def _bound_for(self, job: Job) -> list[Object]:
        """Pods on their nodes that no other gang has in its ranks."""
        bound = self._remembered.bound(job.id) if self._remembered is not None else ()
        gangs = {uid: self.gang_of(uid) for uid in bound}
        return [gang.pods[uid] for uid, gang in gangs.items() if gang is not None and not gang.has(uid)]

    def gather_bound(self, gang: PodGang, job: Job) -> None:
        """Those that say by now that they are another group's."""
        for pod in self._bound_for(job):
            uid = uid_of(pod)
            if self.gang_of(uid) is not gang:
                self.leave(uid)
                self._key_of[uid] = gang.member.key
                self.put(gang, pod)
                gang.strays.add(uid)

    def open(self) -> None:
        """The service has said all that it remembers."""
        self._remembered = None
