"""On which nodes a pod may go: labels, taints, affinity, spread, host ports and volumes, as kube-scheduler has them.

``rule_of`` reads what a pod demands, ``Masks`` says which nodes that leaves. A ``PodIndex`` with all pods and a
``Storage`` with all claims and volumes are kept up to date by whoever watches the cluster.
"""

from gpusquad.engines.kubernetes.where.errors import Unsupported
from gpusquad.engines.kubernetes.where.gangs import check_gang, check_roles
from gpusquad.engines.kubernetes.where.masks import Masks, explain
from gpusquad.engines.kubernetes.where.pod_index import PodIndex
from gpusquad.engines.kubernetes.where.rule import Rule, rule_of, together
from gpusquad.engines.kubernetes.where.storage import Storage

__all__ = [
    "Masks", "PodIndex", "Rule", "Storage", "Unsupported",
    "check_gang", "check_roles", "explain", "rule_of", "together",
]  # fmt: skip
