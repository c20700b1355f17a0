"""To which group a pod belongs, by any of the conventions that people already use.

Nobody should have to rewrite YAML. The conventions are tried in the order of ``CONVENTIONS``: an explicit group before
what follows from the owner, and the one closest to Kubernetes itself first.
"""

from __future__ import annotations

from collections.abc import Callable

from gpusquad.engines.kubernetes.parse.conventions.coscheduling import coscheduling
from gpusquad.engines.kubernetes.parse.conventions.gpusquad import ours
from gpusquad.engines.kubernetes.parse.conventions.kai import kai
from gpusquad.engines.kubernetes.parse.conventions.kueue import kueue
from gpusquad.engines.kubernetes.parse.conventions.leader_worker_set import leader_worker_set
from gpusquad.engines.kubernetes.parse.conventions.native import native
from gpusquad.engines.kubernetes.parse.conventions.owners import owned, remade
from gpusquad.engines.kubernetes.parse.conventions.volcano import volcano
from gpusquad.engines.kubernetes.parse.groups import GroupKey, Membership, alone
from gpusquad.engines.kubernetes.parse.lookups import Find, LookupPending
from gpusquad.kube.annotations import flag_of
from gpusquad.kube.names import GANG
from gpusquad.kube.objects import Object, annotations_of

Convention = Callable[[Object, Find], Membership | None]
"""None: the pod says nothing of that kind."""

CONVENTIONS: tuple[Convention, ...] = (
    native,
    coscheduling,
    volcano,
    kueue,
    kai,
    ours,
    leader_worker_set,
    owned,
)


def membership_of(pod: Object, find: Find) -> Membership:
    """The pod's group. Raises ``Malformed`` or ``Unsupported`` where it says something that cannot be honoured.

    ``gpusquad.io/gang: "false"`` on the pod comes before everything: it is a job of its own.
    """
    try:
        if flag_of(annotations_of(pod), GANG) is not False:
            for convention in CONVENTIONS:
                membership = convention(pod, find)
                if membership is not None:
                    return membership
        return alone(pod, remakes=remade(pod, find, 1))
    except LookupPending as wait:
        key = GroupKey(wait.kind, wait.namespace, wait.name, "")
        return Membership(key, None, 1, False, waits_for=str(wait))
