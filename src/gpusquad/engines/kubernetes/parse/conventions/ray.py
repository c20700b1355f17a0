"""Ray clusters, also those of a RayJob or RayService: the head and the workers are one gang.

With the autoscaler on, only ``minReplicas`` of each group belong to the gang. The autoscaler adds workers on demand;
each of them is a job of its own. The cluster of a RayJob is not preempted, because the RayJob would end with it.
Source: ray-project/kuberay, ray-operator/apis/ray/v1.
"""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.groups import Membership, RoleSize, of_object
from gpusquad.engines.kubernetes.parse.roles import HEAD
from gpusquad.kube.annotations import MAX_COUNT, count
from gpusquad.kube.objects import Object, controller_of

KIND = "RayCluster"


def gang(pod: Object, cluster: Object) -> Membership:
    spec = cluster.get("spec") or {}
    groups = [each for each in spec.get("workerGroupSpecs") or () if not each.get("suspend")]
    scales = bool(spec.get("enableInTreeAutoscaling"))
    parts = (
        RoleSize(HEAD, 1),
        *(RoleSize(each["groupName"].lower(), _workers(each, at_least=scales)) for each in groups),
    )
    size = 1 + sum(_workers(each, at_least=False) for each in groups)
    least = sum(part.count for part in parts)
    return of_object(pod, cluster, kind=KIND, least=least, size=size, recreates=recreates(cluster, least), parts=parts)


def recreates(cluster: Object, together: int) -> bool:
    maker = controller_of(cluster)
    return maker is None or maker.get("kind") != "RayJob"


def _workers(group: Object, *, at_least: bool) -> int:
    """Pods of one worker group. A replica may span several hosts."""
    low = count(group.get("minReplicas"), f"{KIND}: minReplicas", default=0)
    wanted = count(group.get("replicas"), f"{KIND}: replicas", default=low)
    high = min(group.get("maxReplicas") or MAX_COUNT, MAX_COUNT)
    hosts = count(group.get("numOfHosts"), f"{KIND}: numOfHosts", default=1, low=1)
    return (low if at_least else min(max(low, wanted), max(low, high))) * hosts
