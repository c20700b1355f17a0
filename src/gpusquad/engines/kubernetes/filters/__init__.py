"""On which nodes a pod may go: labels, taints, affinity, spread, host ports and volumes, as kube-scheduler has them.

``rule_of`` reads what a pod demands, ``Masks`` says which nodes that leaves. A ``PodIndex`` with all pods and a
``Storage`` with all claims and volumes are kept up to date by whoever watches the cluster.
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
