"""Tenants, users, their tokens, and who did what."""

from __future__ import annotations

from typing import Any, TypedDict


class Me(TypedDict):
    user: str
    tenant: str
    role: str
    scopes: list[str]


class Tenant(TypedDict):
    name: str
    weight: float
    guaranteed_gpus: int | None
    limit_gpus: int | None
    reclaim_s: float
    max_pending: int | None
    on_hang: str
    run_as: str | None


class User(TypedDict):
    name: str
    tenant: str
    role: str
    disabled: bool


class Token(TypedDict):
    id: str
    user: str
    label: str
    scopes: list[str]
    created_s: float
    expires_s: float | None
    revoked_s: float | None
    last_used_s: float | None


class NewToken(Token):
    token: str


class AuditRow(TypedDict):
    at_s: float
    actor: str
    action: str
    target: str
    data: dict[str, Any] | None
