"""LeaderWorkerSet: each of its groups, a leader and its workers, is a gang.

It is recognised by labels. A worker's owner is a StatefulSet whose owner is the leader *pod*, so the set itself is not
in the chain of owners. With ``startupPolicy: LeaderReady`` workers are created after the leader runs. Then the leader
is a job of its own, and the workers are a gang without it. If pods are deleted, the whole group is recreated at once.
Source: kubernetes-sigs/lws, api/leaderworkerset/v1, and its page on labels and annotations.
"""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.groups import Membership, RoleSize, alone, gpusquad_annotations, of_object
from gpusquad.engines.kubernetes.parse.lookups import Find, look
from gpusquad.engines.kubernetes.parse.roles import LEADER, WORKER, role_of
from gpusquad.kube.annotations import count, flag_of, text_of
from gpusquad.kube.names import GANG
from gpusquad.kube.objects import Object, annotations_of, labels_of, namespace_of

GROUP = "leaderworkerset.x-k8s.io"
KIND = "LeaderWorkerSet"
NAME = "leaderworkerset.sigs.k8s.io/name"
INDEX = "leaderworkerset.sigs.k8s.io/group-index"


def leader_worker_set(pod: Object, find: Find) -> Membership | None:
    labels = labels_of(pod)
    name, index = text_of(labels, NAME), text_of(labels, INDEX)
    if not name or not index:
        return None
    owner = look(find, GROUP, KIND, namespace_of(pod), name)
    spec = owner.get("spec") or {}
    size = count((spec.get("leaderWorkerTemplate") or {}).get("size"), f"{KIND}: size", default=1, low=1)
    leader_first = spec.get("startupPolicy") == "LeaderReady"
    if flag_of(annotations_of(owner), GANG) is False or (leader_first and role_of(pod) == LEADER):
        return alone(pod, recreates=True, annotations=gpusquad_annotations(owner))
    leaders = 0 if leader_first else 1
    parts = (RoleSize(LEADER, leaders), RoleSize(WORKER, size - 1))
    least = leaders + size - 1
    return of_object(pod, owner, kind=KIND, least=least, recreates=True, parts=parts, within=index)
