"""Allowed nodes of a pod by labels, taints, affinity, spread, host ports and volumes, as in kube-scheduler.

``rule_of`` parses the constraints of a pod, ``NodeMasks`` computes the nodes that satisfy them. The engine's watches
keep a ``PodIndex`` of all pods and a ``Storage`` of all claims and volumes up to date.
"""

from gpusquad.engines.kubernetes.filters.errors import UnsupportedRule
from gpusquad.engines.kubernetes.filters.gangs import check_gang, check_roles
from gpusquad.engines.kubernetes.filters.masks import NodeMasks, explain
from gpusquad.engines.kubernetes.filters.placement_rule import PlacementRule, rule_of, together
from gpusquad.engines.kubernetes.filters.pod_index import PodIndex
from gpusquad.engines.kubernetes.filters.storage import Storage

__all__ = [
    "NodeMasks",
    "PlacementRule",
    "PodIndex",
    "Storage",
    "UnsupportedRule",
    "check_gang",
    "check_roles",
    "explain",
    "rule_of",
    "together",
]  # fmt: skip
