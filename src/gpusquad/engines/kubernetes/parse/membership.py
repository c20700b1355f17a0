"""The group of a pod, by any of the supported conventions, so that users need not rewrite their YAML.

The conventions are tried in the order of ``CONVENTIONS``: explicit groups before owners, and the most Kubernetes-native
first.
"""

from __future__ import annotations

from collections.abc import Callable

from gpusquad.engines.kubernetes.parse.conventions.coscheduling import coscheduling
from gpusquad.engines.kubernetes.parse.conventions.gpusquad import own_group
from gpusquad.engines.kubernetes.parse.conventions.kai import kai
from gpusquad.engines.kubernetes.parse.conventions.kueue import kueue
from gpusquad.engines.kubernetes.parse.conventions.leader_worker_set import leader_worker_set
from gpusquad.engines.kubernetes.parse.conventions.native import native
from gpusquad.engines.kubernetes.parse.conventions.owners import is_recreated_by_owner, owned
from gpusquad.engines.kubernetes.parse.conventions.volcano import volcano
from gpusquad.engines.kubernetes.parse.groups import GroupKey, Membership, alone
from gpusquad.engines.kubernetes.parse.lookups import Find, LookupPending
from gpusquad.kube.annotations import flag_of
from gpusquad.kube.names import GANG
from gpusquad.kube.objects import Object, annotations_of

Convention = Callable[[Object, Find], Membership | None]
"""None: the pod does not use this convention."""

CONVENTIONS: tuple[Convention, ...] = (
    native,
    coscheduling,
    volcano,
    kueue,
    kai,
    own_group,
    leader_worker_set,
    owned,
)


def membership_of(pod: Object, find: Find) -> Membership:
    """The pod's group. Raises ``MalformedField`` or ``UnsupportedField``.

    ``gpusquad.io/gang: "false"`` on the pod takes precedence: the pod is a job of its own.
    """
    try:
        if flag_of(annotations_of(pod), GANG) is not False:
            for convention in CONVENTIONS:
                membership = convention(pod, find)
                if membership is not None:
                    return membership
        return alone(pod, recreates=is_recreated_by_owner(pod, find, 1))
    except LookupPending as wait:
        key = GroupKey(wait.kind, wait.namespace, wait.name, "")
        return Membership(key, None, 1, False, waits_for=str(wait))
