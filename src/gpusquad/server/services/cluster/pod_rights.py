"""Rights of tenants to the priorities and lanes that they write on their pods.

Pods are not refused: a priority above the right is lowered, and a lane without the right is ignored. If the tenant has
used up its budget of urgent GPU-hours, a priority above high is lowered to it. A PriorityClass is granted by the
cluster and stays. Everyone who may create pods may name any user in an annotation, so only the rights of the tenant
count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpusquad.model.job import Job
from gpusquad.model.priority import HIGH, highest, is_above_high, level_of, lowest
from gpusquad.server.services.jobs.rights import rights_of_tenant
from gpusquad.server.services.jobs.urgent_budgets import SpentBudget
from gpusquad.server.services.runtime.tenants import TenantCache


class PodRights:
    """Used inside a pass."""

    def __init__(
        self,
        tenants: TenantCache,
        cluster_priority: Callable[[str], str],
        spent_budget: Callable[[str], SpentBudget | None],
    ) -> None:
        """``cluster_priority``: the priority that the cluster grants to the pods of a job, by its id. ``spent_budget``:
        the budget of a tenant if it is used up."""
        self._tenants = tenants
        self._spent_budget = spent_budget
        self._cluster_priority = cluster_priority
        self._reported: dict[str, tuple[str, str]] = {}
        """By job: priority and lane of its pods that were restricted last."""

    def restrict(self, found: Job, before: Job | None = None) -> tuple[Job, str]:
        """The job with what its tenant may choose, and why it differs from its pods. Empty: it does not, or that was
        reported. What the job has already (``before``) was granted, for example by an administrator's update."""
        rights = rights_of_tenant(self._tenants.get(found.tenant))
        priority, lane, reasons = found.priority, found.lane, []
        spent = self._spent_budget(found.tenant) if is_above_high(priority) else None
        most = lowest(rights.max_priority or priority, priority if spent is None else HIGH)
        if level_of(priority) > level_of(most):
            granted = [most, self._granted_by_cluster(found.id)]
            granted += [] if before is None else [before.priority]
            priority = lowest(priority, highest(*filter(None, granted)))
        if priority != found.priority and spent is not None and is_above_high(rights.max_priority or found.priority):
            reasons.append(
                f"{spent.text}, so the job has priority {priority} instead of {found.priority}; an administrator can "
                f"run {spent.command}"
            )
        elif priority != found.priority:
            reasons.append(
                f"priority {found.priority} is above the maximum of tenant {found.tenant}, which is "
                f"{rights.max_priority}, so the job has priority {priority}; an administrator can run "
                f"gpusquad tenant set {found.tenant} --max-priority {found.priority}"
            )
        if lane and not rights.may_choose_lane and (before is None or lane != before.lane):
            lane = "" if before is None else before.lane
            reasons.append(
                f"lane {found.lane} is ignored, because tenant {found.tenant} may not choose lanes; an administrator "
                f"can run gpusquad tenant set {found.tenant} --may-choose-lane yes"
            )
        return replace(found, priority=priority, lane=lane), self._news(found, " | ".join(reasons))

    def forget(self, job_id: str) -> None:
        """The job has ended."""
        self._reported.pop(job_id, None)

    def _granted_by_cluster(self, job_id: str) -> str:
        """Empty: the pods have no PriorityClass that raises their priority."""
        name = self._cluster_priority(job_id)
        return name if level_of(name) > 0 else ""

    def _news(self, found: Job, reason: str) -> str:
        asked = (found.priority, found.lane)
        if not reason:
            self._reported.pop(found.id, None)
            return ""
        if self._reported.get(found.id) == asked:
            return ""
        self._reported[found.id] = asked
        return reason
