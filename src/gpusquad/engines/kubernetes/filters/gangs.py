"""Whether masks are sufficient to place several pods at once.

A mask is valid for one pod after another. The tasks of a gang are placed together. If they repel or attract each other,
the mask of the second pod depends on the place of the first. Within a host this is a bound
(``PlacementRule.most_per_node``). Across zones it is not, and such gangs are refused rather than placed wrongly.
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
    """Why that many tasks of this rule cannot be placed at once; None: masks and ``most_per_node`` are sufficient."""
    if tasks <= 1:
        return None
    if rule.is_near_itself:
        return UnsupportedRule(
            "spec.affinity.podAffinity",
            "affinity between tasks of one gang is not supported",
            _CURE,
        )
    for term in rule.apart_from_itself:
        if term.topology_key != HOSTNAME:
            return UnsupportedRule(
                "spec.affinity.podAntiAffinity",
                f"anti-affinity between tasks of one gang by {term.topology_key} is not supported",
                f"use {HOSTNAME}, or {_CURE}",
            )
    for spread in rule.spreads:
        if spread.counts_itself and spread.topology_key != HOSTNAME:
            return UnsupportedRule(
                "spec.topologySpreadConstraints",
                f"spreading tasks of one gang over {spread.topology_key} is not supported",
                f"use {HOSTNAME} or ScheduleAnyway, or {_CURE}",
            )
    for claim in (storage or Storage()).exclusive(rule.claims):
        return UnsupportedRule(
            "spec.volumes", f"claim {claim.key} is for one pod, not for {tasks}", "use ReadWriteMany"
        )
    return None


def check_roles(pods: Sequence[Object], index: PodIndex | None = None) -> UnsupportedRule | None:
    """Given one pod of each role: why the roles cannot be placed at once, because their constraints refer to each
    other."""
    for one, other in permutations(pods, 2):
        field = _matching_field(one, other, index or PodIndex())
        if field:
            return UnsupportedRule(
                field,
                f"{name_of(one)} constrains the place of {name_of(other)} of the same gang, which is not supported",
                "remove it between roles of one gang, or submit them as separate jobs",
            )
    return None


def _matching_field(one: Object, other: Object, index: PodIndex) -> str:
    """The field of ``one`` that matches ``other``; empty: none."""
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
