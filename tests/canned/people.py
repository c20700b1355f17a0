"""Tenants, users, their tokens and their rules for notices as the API shows them."""

from __future__ import annotations

from typing import Any

from tests.canned.units import DAY_S


def tenant(name: str, weight: float, limit: int | None) -> dict[str, Any]:
    return {"name": name, "weight": weight, "guaranteed_gpus": 4, "limit_gpus": limit, "reclaim_s": 60.0,
            "max_pending": None, "on_hang": "stop", "run_as": None, "max_priority": "normal",
            "may_choose_lane": False, "urgent_gpu_hours": None, "urgent_gpu_hours_used": 0.0}  # fmt: skip


def user(name: str, tenant: str, role: str = "member", off: bool = False) -> dict[str, Any]:
    return {"name": name, "tenant": tenant, "role": role, "disabled": off, "max_priority": None,
            "may_choose_lane": None}  # fmt: skip


def token(now_s: float) -> dict[str, Any]:
    return {"id": "t1", "user": "ana", "label": "laptop", "scopes": ["read", "submit"], "created_s": now_s - 9 * DAY_S,
            "expires_s": now_s + 30 * DAY_S, "revoked_s": None, "last_used_s": now_s - 60}  # fmt: skip


def rule(now_s: float) -> dict[str, Any]:
    return {"id": 4, "user": "ana", "kinds": ["failed", "hung"], "url": "slack://***", "label": "team channel",
            "created_s": now_s - DAY_S}  # fmt: skip


def inbox_entry(now_s: float, number: int, title: str, **fields: Any) -> dict[str, Any]:
    usual = {"id": number, "kind": "finished", "job": None, "group": None, "name": "diverged", "state": "failed",
             "reason": {"code": "exit_code", "text": "exit code 1"}, "count": 1, "ends": None, "jobs": None,
             "failed": [], "title": title, "body": f"{title}\nWhat to do: Nothing.", "first_s": now_s - 60,
             "at_s": now_s - 60, "read": False}  # fmt: skip
    return usual | fields
