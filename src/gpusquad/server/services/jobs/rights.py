"""Rights to priorities and lanes, which put a job ahead of those of other users.

An administrator may use every priority class and lane. For others the user's own right applies, else the tenant's, else
the default: priority ``normal`` at most, and no choice of lanes. The user is the owner of the job.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from gpusquad.model.job import Job
from gpusquad.model.priority import DEFAULT_PRIORITY, is_priority, level_of
from gpusquad.server.answers import Who
from gpusquad.server.errors import Forbidden
from gpusquad.store import people
from gpusquad.store.people import TenantRow

RESTRICTED = {"restricted": True}
"""Data of the warning that a job has a lower priority or another lane than its user chose."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a user may choose for a job."""

    max_priority: str | None
    """Highest priority, by name or as a number. None: every one."""
    may_choose_lane: bool

    def allows_priority(self, priority: str) -> bool:
        """Whether the priority is not above the maximum. An invalid one is left to the checks of its field."""
        if self.max_priority is None or not is_priority(priority):
            return True
        return level_of(priority) <= level_of(self.max_priority)


UNLIMITED = Rights(None, True)
DEFAULT = Rights(DEFAULT_PRIORITY, False)


def rights_of(who: Who, tenant: TenantRow | None) -> Rights:
    """Rights of this caller for its jobs of this tenant."""
    if who.is_admin:
        return UNLIMITED
    of_tenant = rights_of_tenant(tenant)
    return Rights(
        of_tenant.max_priority if who.max_priority is None else who.max_priority,
        of_tenant.may_choose_lane if who.may_choose_lane is None else who.may_choose_lane,
    )


def rights_of_tenant(tenant: TenantRow | None) -> Rights:
    """Rights of users without rights of their own. None: a tenant without settings, for example a namespace."""
    return DEFAULT if tenant is None else Rights(tenant.max_priority, tenant.may_choose_lane)


def grant_of(connection: Connection, job: Job, right: str) -> str:
    """Who granted the right by which a job went ahead, in words. Empty: nobody, it is a rule of the mode."""
    tenant, user = people.tenant(connection, job.tenant), people.user(connection, job.user)
    if right == "guarantee":
        return f"set for tenant {job.tenant} by an administrator"
    if right == "lane":
        return f"chosen by {job.user}, who may choose lanes" if job.lane else ""
    if right != "priority":
        return ""
    if DEFAULT.allows_priority(job.priority):
        return "which everybody may use"
    # The tenant first: on Kubernetes the user is what somebody wrote on a pod, and only its right counts.
    if tenant is not None and rights_of_tenant(tenant).allows_priority(job.priority):
        return f"granted to tenant {job.tenant} by an administrator"
    own = None if user is None else user.max_priority
    if own is not None and Rights(own, False).allows_priority(job.priority):
        return f"granted to {job.user} by an administrator"
    return "set by an administrator or by a PriorityClass"


def check_rights(rights: Rights, who: Who, job: Job, before: Job | None = None) -> None:
    """Refuse a priority above the maximum, and a lane that the user may not choose. Values that the job has already
    (``before``) may stay."""
    if (before is None or job.priority != before.priority) and not rights.allows_priority(job.priority):
        raise Forbidden(
            f"{job.priority} is above your maximum, which is {rights.max_priority}", field="priority",
            cure=f"use priority {rights.max_priority} or lower, or ask an administrator to run "
            f"gpusquad user set {who.user} --max-priority {job.priority}",
        )  # fmt: skip
    if job.lane and (before is None or job.lane != before.lane) and not rights.may_choose_lane:
        raise Forbidden(
            "you may not choose a lane", field="lane",
            cure="leave lane out, so that the lane rules choose, or ask an administrator to run "
            f"gpusquad user set {who.user} --may-choose-lane yes",
        )  # fmt: skip
