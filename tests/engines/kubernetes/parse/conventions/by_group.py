"""Cases of pods that name their group."""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.groups import RoleSize
from tests.engines.kubernetes.parse.builders import pod
from tests.engines.kubernetes.parse.conventions.case import Case
from tests.engines.kubernetes.parse.conventions.objects import (
    BASIC,
    COSCHEDULING,
    KAI,
    KAI_SUBGROUPS,
    NATIVE,
    OLD,
    REPLICA_SET,
    STATEFUL_SET,
    VOLCANO,
    VOLCANO_PARTIAL,
)

OLDEST = "pod-group.scheduling.sigs.k8s.io"

BY_GROUP = {
    "native": Case(pod("p", schedulingGroup={"podGroupName": "g"}), (NATIVE,), "PodGroup", "g", 4, 4),
    "native, not a gang": Case(pod("p", schedulingGroup={"podGroupName": "g"}), (BASIC,), "Pod", "p", 1, 1),
    "coscheduling": Case(
        pod("p", labels={"scheduling.x-k8s.io/pod-group": "g"}, owner=REPLICA_SET),
        (COSCHEDULING,),
        "PodGroup",
        "g",
        3,
        3,
        recreates=True,
    ),
    "old coscheduling": Case(pod("p", labels={"pod-group.scheduling.sigs.k8s.io": "g"}), (OLD,), "PodGroup", "g", 5, 5),
    "old label, new object": Case(
        pod("p", labels={"pod-group.scheduling.sigs.k8s.io": "g"}), (COSCHEDULING,), "PodGroup", "g", 3, 3
    ),
    "oldest coscheduling": Case(
        pod("p", labels={f"{OLDEST}/name": "g", f"{OLDEST}/min-available": "3"}),
        (),
        "pod-group.scheduling.sigs.k8s.io/name",
        "g",
        3,
        3,
    ),
    "Volcano": Case(
        pod("p", annotations={"scheduling.k8s.io/group-name": "g"}),
        (VOLCANO,),
        "PodGroup",
        "g",
        3,
        3,
        parts=(RoleSize("ps", 1), RoleSize("worker", 2)),
    ),
    "Volcano, its own name": Case(
        pod("p", annotations={"scheduling.volcano.sh/group-name": "g"}), (VOLCANO_PARTIAL,), "PodGroup", "g", 2, 2
    ),
    "Kueue": Case(
        pod(
            "p",
            labels={"kueue.x-k8s.io/pod-group-name": "g"},
            annotations={"kueue.x-k8s.io/pod-group-total-count": "8"},
        ),
        (),
        "kueue.x-k8s.io/pod-group-name",
        "g",
        8,
        8,
    ),
    "Kueue, a service": Case(
        pod(
            "p",
            labels={"kueue.x-k8s.io/pod-group-name": "g"},
            owner=STATEFUL_SET,
            annotations={"kueue.x-k8s.io/pod-group-total-count": "8", "kueue.x-k8s.io/pod-group-serving": "true"},
        ),
        (),
        "Pod",
        "p",
        1,
        1,
        recreates=True,
    ),
    "KAI": Case(pod("p", annotations={"pod-group-name": "g"}), (KAI,), "PodGroup", "g", 6, 6),
    "KAI, sub-groups": Case(pod("p", annotations={"pod-group-name": "g"}), (KAI_SUBGROUPS,), "PodGroup", "g", 5, 5),
    "gpusquad": Case(
        pod("p", annotations={"gpusquad.io/group": "g", "gpusquad.io/group-size": "2"}),
        (),
        "gpusquad.io/group",
        "g",
        2,
        2,
    ),
    "gpusquad, as labels": Case(
        pod("p", labels={"gpusquad.io/group": "g", "gpusquad.io/group-size": "2"}), (), "gpusquad.io/group", "g", 2, 2
    ),
}
