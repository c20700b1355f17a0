"""Card division as plain data (``schemas.cards``). A daemon may be older, so its status is read defensively."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import CardUser, Who
from gpusquad.server.permissions import may_see
from gpusquad.server.services.sharing.cards import CardDivisionNow, Division
from gpusquad.server.views import Plain, uuid_of
from gpusquad.store.card_divides import CardDivideRow

Status = Mapping[str, Any]
_WORD = re.compile(r"[^\s,;:()]+")


def division_view(division: Division) -> Plain:
    card, setting = division.card, division.setting
    return {
        "id": card.id,
        "uuid": uuid_of(card.id),
        "node": card.node,
        "index": card.index,
        "model": card.model,
        "memory_bytes": card.memory_bytes,
        "simulated": card.simulated,
        "divide": {
            "policy": division.policy,
            "own": division.is_own,
            "of_mode": division.of_mode,
            "revision": None if setting is None else setting.revision,
            "since_s": None if setting is None else setting.at_us / US_PER_S,
            "by": "" if setting is None else setting.by,
            "note": "" if setting is None else setting.note,
            "effect": division.effect,
            "message": division.message,
        },
    }


def detail_view(card: CardDivisionNow, who: Who) -> Plain:
    now = None if card.status is None else _now_view(card.status, card.jobs, who)
    return division_view(card.division) | {"now": now}


def revision_view(row: CardDivideRow) -> Plain:
    return {"revision": row.revision, "at_s": row.at_us / US_PER_S, "by": row.by, "card": row.card,
            "policy": row.policy, "note": row.note}  # fmt: skip


def _now_view(status: Status, jobs: Sequence[CardUser], who: Who) -> Plain:
    """Reason and unmanaged processes, for administrators only, because they can name any user's work."""
    groups = status.get("groups")
    processes = [
        {"pid": one["pid"], "name": one.get("name") or "", "memory_bytes": one.get("memory_bytes") or 0}
        for one in status.get("strangers") or ()
    ]
    unmanaged = processes if who.is_admin else []
    return {
        "policy": status.get("policy", ""),
        "configuration": status.get("configuration", ""),
        "length_us": status.get("length_us", 0),
        "squads": status.get("squads", 0),
        "groups": groups,
        "why": _named(status, jobs) if who.is_admin else "",
        "failure": status.get("failure", "") if who.is_admin else "",
        "pool": status.get("mps") or "",
        "context_bytes": status.get("context_bytes", 0),
        "tenants": [_tenant_view(tenant, groups, jobs, who) for tenant in status.get("tenants") or ()],
        "unmanaged_count": len(processes),
        "unmanaged": unmanaged,
        "stranger_count": len(processes),
        "strangers": unmanaged,
        "rule": status.get("rule", ""),
    }


def _named(status: Status, jobs: Sequence[CardUser]) -> str:
    """Why it is divided so, with jobs named as beside it."""
    names = {}
    for tenant in status.get("tenants") or ():
        job = _job_of(tenant, jobs)
        if job is not None and job.name:
            names[str(tenant.get("id", ""))] = job.name
    return _WORD.sub(lambda word: names.get(word[0], word[0]), status.get("why", ""))


def _tenant_view(tenant: Status, groups: int | None, jobs: Sequence[CardUser], who: Who) -> Plain:
    job = _job_of(tenant, jobs)
    seen = who.is_admin or (job is not None and may_see(who, job))
    own = tenant.get("groups") or 0
    return {
        "job": job.job_id if job is not None and seen else None,
        "name": job.name if job is not None and seen else None,
        "user": job.user if job is not None and seen else None,
        "id": tenant.get("id") if who.is_admin else None,
        "groups": own,
        "sm_ratio": None if not groups else own / groups if own else 1.0,
        "used_bytes": tenant.get("used_bytes", 0),
        "quota_bytes": tenant.get("quota_bytes", 0),
        "peak_bytes": tenant.get("peak_bytes"),
        "isolation": tenant.get("isolation") or "",
        **_conduct(tenant if seen else {}),
    }


def _conduct(tenant: Status) -> Plain:
    """Demand and service of a client, visible to its owner only."""
    waited_us = tenant.get("waited_us")
    return {
        "weight": tenant.get("weight"),
        "priority": tenant.get("priority"),
        "slo": tenant.get("slo"),
        "attainment_ratio": tenant.get("attainment"),
        "credit_us": tenant.get("credit_us"),
        "waiting": tenant.get("waiting"),
        "waited_s": None if waited_us is None else waited_us / US_PER_S,
        "is_idle": tenant.get("is_idle"),
        "processes": tenant.get("processes"),
        "iterations_per_s": tenant.get("iterations_per_s"),
        "note": tenant.get("note") or "",
    }


def _job_of(tenant: Status, jobs: Sequence[CardUser]) -> CardUser | None:
    """Clients are named by their job, or by a pod's uid together with the job."""
    named = tenant.get("job")
    if named:
        return next((job for job in jobs if job.job_id == named), None)
    return next((job for job in jobs if job.job_id in str(tenant.get("id", ""))), None)
