"""Whether a mask is all there is to know when several pods are placed at once.

A mask answers for one pod after another. Tasks of a gang come together, and where they keep each other away or want
each other near, the second pod's mask depends on where the first one went. On a host that is one bound
(``Rule.most_per_node``); across zones it is not, and such gangs are refused rather than placed wrongly.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from gpusquad.engines.kubernetes.filters.errors import UnsupportedRule
from gpusquad.engines.kubernetes.filters.placement_rule import PlacementRule
from gpusquad.engines.kubernetes.filters.pod_affinity import HOSTNAME, terms_of
from gpusquad.engines.kubernetes.filters.pod_index import PodIndex
from gpusquad.engines.kubernetes.filters.ports import clash, ports_of
from gpusquad.engines.kubernetes.filters.spread import spreads_of
from gpusquad.engines.kubernetes.filters.storage import Storage
from gpusquad.kube.objects import Object, labels_of, name_of, namespace_of

_CURE = "run it with one task, or name the nodes by a node selector"


def check_gang(rule: PlacementRule, tasks: int, storage: Storage | None = None) -> UnsupportedRule | None:
    """Why so many tasks of this rule cannot be placed at once; None: masks and ``most_per_node`` are enough."""
    if tasks <= 1:
        return None
    if rule.is_near_itself:
        return UnsupportedRule(
            "spec.affinity.podAffinity",
            "tasks of a gang that have to be near each other are not placed together",
            _CURE,
        )
    for term in rule.apart_from_itself:
        if term.topology_key != HOSTNAME:
            return UnsupportedRule(
                "spec.affinity.podAntiAffinity", f"tasks of a gang are not kept apart by {term.topology_key}",
                f"use {HOSTNAME}, or {_CURE}",
            )  # fmt: skip
    for spread in rule.spreads:
        if spread.counts_itself and spread.topology_key != HOSTNAME:
            return UnsupportedRule(
                "spec.topologySpreadConstraints", f"tasks of a gang are not spread over {spread.topology_key}",
                f"use {HOSTNAME} or ScheduleAnyway, or {_CURE}",
            )  # fmt: skip
    for claim in (storage or Storage()).exclusive(rule.claims):
        return UnsupportedRule(
            "spec.volumes", f"claim {claim.key} is for one pod, not for {tasks}", "use ReadWriteMany"
        )
    return None


def check_roles(pods: Sequence[Object], index: PodIndex | None = None) -> UnsupportedRule | None:
    """One pod of each role: why roles of one gang cannot be placed at once, because they look at each other."""
    for one, other in permutations(pods, 2):
        field = _looks_at(one, other, index or PodIndex())
        if field:
            return UnsupportedRule(
                field, f"{name_of(one)} says where {name_of(other)} of the same gang may be, which is not done",
                "leave it out between roles of one gang, or submit them as jobs of their own",
            )  # fmt: skip
    return None


def _looks_at(one: Object, other: Object, index: PodIndex) -> str:
    """The field of the one that the other matches; empty: none."""
    namespace, labels = namespace_of(other), labels_of(other)
    seen = labels, namespace, index.namespaces.get(namespace)
    near = terms_of(one, "podAffinity")
    if near and all(term.matches(*seen) for term in near):
        return "spec.affinity.podAffinity"
    if any(term.matches(*seen) for term in terms_of(one, "podAntiAffinity")):
        return "spec.affinity.podAntiAffinity"
    if any(spread.namespace == namespace and spread.selector.matches(labels) for spread in spreads_of(one)):
        return "spec.topologySpreadConstraints"
    return "spec.containers.ports" if clash(ports_of(one), ports_of(other)) else ""
