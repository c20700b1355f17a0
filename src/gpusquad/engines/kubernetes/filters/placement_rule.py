"""Hard constraints of a pod on its node, as in kube-scheduler, except for resources.

Preferences are ignored on purpose: preferred affinity, ScheduleAnyway, PreferNoSchedule. The engine handles
``spec.nodeName`` and scheduling gates; the core handles resources.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b

from gpusquad.engines.kubernetes.filters.errors import UnsupportedRule
from gpusquad.engines.kubernetes.filters.node_affinity import OPEN, NodeChoice, choice_of_pod
from gpusquad.engines.kubernetes.filters.pod_affinity import HOSTNAME, Term, terms_of
from gpusquad.engines.kubernetes.filters.pod_index import PodIndex
from gpusquad.engines.kubernetes.filters.ports import HostPort, ports_of
from gpusquad.engines.kubernetes.filters.spread import TopologySpread, spreads_of
from gpusquad.engines.kubernetes.filters.taints import Toleration, tolerations_of
from gpusquad.engines.kubernetes.filters.volumes import VolumeClaim, claims_of
from gpusquad.kube.objects import Object, labels_of, namespace_of
from gpusquad.model.lazy import lazy


@dataclass(frozen=True)
class PlacementRule:
    """Equal rules allow equal nodes. The pod's labels are included only by their effect: which anti-affinity of other
    pods matches it, and whether it matches its own terms. So thousands of jobs with different labels share one rule."""

    choice: NodeChoice = OPEN
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    claims: tuple[VolumeClaim, ...] = ()
    near: tuple[Term, ...] = ()
    """Required affinity: a pod that matches all of these must be in the domain."""
    is_near_itself: bool = False
    apart: tuple[Term, ...] = ()
    """Required anti-affinity: no pod that matches any of these may be in the domain."""
    apart_from_itself: tuple[Term, ...] = ()
    """Those of ``apart`` that match the pod itself, and so pods like it."""
    repelled_by: tuple[Term, ...] = ()
    """Anti-affinity of other pods that matches this pod: it may not enter their domains."""
    spreads: tuple[TopologySpread, ...] = ()

    @lazy
    def name(self) -> str:
        """Short, and equal in every process: ``Request.where``."""
        values = tuple(getattr(self, field.name) for field in fields(self))
        return blake2b(repr(values).encode(), digest_size=10).hexdigest()

    @lazy
    def is_live(self) -> bool:
        """The allowed nodes depend on pods or claims, not on nodes alone."""
        return bool(self.ports or self.claims or self.near or self.apart or self.repelled_by or self.spreads)

    @lazy
    def most_per_node(self) -> int:
        """1 if pods of this rule exclude each other on a host, 0 if any number may share it.

        A spread over hosts is satisfied with one pod per host, whatever its skew: if a node can take one more pod, it
        still can after other tasks of the gang went to other nodes, because the minimum over all hosts can only have
        grown. Two per host would require to know the number on each. Host names are assumed to be unique, as kubelets
        make them.
        """
        by_host = any(term.topology_key == HOSTNAME for term in self.apart_from_itself)
        spread_over_hosts = any(one.topology_key == HOSTNAME and one.counts_itself for one in self.spreads)
        return int(bool(self.ports) or by_host or spread_over_hosts)

    @lazy
    def _hash(self) -> int:
        return hash(self.name)

    def __hash__(self) -> int:
        return self._hash


def rule_of(pod: Object, index: PodIndex | None = None) -> PlacementRule:
    """Raises ``UnsupportedRule`` for constraints that cannot be kept.

    The index knows the anti-affinity that matches this pod, and the labels of namespaces. When ``PodIndex.put`` returns
    new terms, the rules of pending pods that match one of them have to be built again.
    """
    _refuse(pod)
    near, apart = terms_of(pod, "podAffinity"), terms_of(pod, "podAntiAffinity")
    known = index or PodIndex()
    itself = labels_of(pod), namespace_of(pod), known.namespaces.get(namespace_of(pod))
    apart_from_itself = tuple(term for term in apart if term.matches(*itself))
    return PlacementRule(
        choice=choice_of_pod(pod),
        tolerations=tolerations_of(pod),
        ports=ports_of(pod),
        claims=claims_of(pod),
        near=near,
        is_near_itself=bool(near) and all(term.matches(*itself) for term in near),
        apart=apart,
        apart_from_itself=apart_from_itself,
        repelled_by=_all((known.repellers(pod), apart_from_itself)),  # also if the index does not contain this pod
        spreads=spreads_of(pod),
    )


def together(rules: Sequence[PlacementRule]) -> PlacementRule:
    """One rule for the pods of one role: where each of them may go.

    Pods of a role often have labels of their own, such as their index. If these only matter to other pods, the
    strictest combination is used. If they change the constraints of the pods themselves, the pods cannot be one role.
    """
    first = rules[0]
    merged = replace(
        first,
        is_near_itself=any(rule.is_near_itself for rule in rules),
        apart_from_itself=_all(rule.apart_from_itself for rule in rules),
        repelled_by=_all(rule.repelled_by for rule in rules),
    )
    for rule in set(rules):
        same = replace(
            rule, is_near_itself=merged.is_near_itself, apart_from_itself=merged.apart_from_itself,
            repelled_by=merged.repelled_by,
        )  # fmt: skip
        if same != merged:
            raise UnsupportedRule("spec", "pods of one role require different nodes", "make them separate roles")
    if merged.is_near_itself and not all(rule.is_near_itself for rule in rules):
        raise UnsupportedRule(
            "spec.affinity.podAffinity", "only some pods of the role match its own terms", "match all or none"
        )
    return merged


def _all(terms: Iterable[tuple[Term, ...]]) -> tuple[Term, ...]:
    return tuple(sorted({term for some in terms for term in some}))


def _refuse(pod: Object) -> None:
    """Constraints beyond a node: devices allocated by claims, and features that only some kubelets have."""
    spec = pod["spec"]
    if spec.get("resourceClaims"):
        raise UnsupportedRule(
            "spec.resourceClaims", "resource claims (DRA) are not supported",
            "request nvidia.com/gpu in the container's resources",
        )  # fmt: skip
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        raise UnsupportedRule(
            "spec.hostUsers", "user namespaces on the host's network are not supported", "remove one of the two"
        )
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        _refuse_container(container)


def _refuse_container(container: Object) -> None:
    if any(mount.get("bindMountOptions") for mount in container.get("volumeMounts") or ()):
        raise UnsupportedRule(
            "volumeMounts.bindMountOptions",
            "not every kubelet supports them, and gpusquad does not check which do",
            "leave them out",
        )
    if any(rule.get("action") == "RestartAllContainers" for rule in container.get("restartPolicyRules") or ()):
        raise UnsupportedRule(
            "restartPolicyRules",
            "not every kubelet can restart all containers, and gpusquad does not check which can",
            "leave it out",
        )
