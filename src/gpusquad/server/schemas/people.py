"""Tenants, users, tokens, and what belongs to them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from gpusquad.server.params import Line, Name
from gpusquad.server.schemas.base import ApiBody, ApiView, Gpus, Next, Priority, Seconds

RoleName = Literal["admin", "member", "viewer"]
Scope = Literal["read", "submit", "admin"]
NoticeState = Literal["waiting", "sent", "dead"]
OwnMaxPriority = Annotated[
    Priority | None,
    Field(description="Highest priority of the user's jobs, by name or as an integer; null: that of the tenant"),
]
OwnMayChooseLane = Annotated[
    bool | None, Field(description="Whether the user may choose the lane of a job; null: as the tenant")
]


class TokenFacts(ApiView):
    id: str
    label: str
    expires_s: float | None


class Me(ApiView):
    user: str
    tenant: str
    role: RoleName
    scopes: list[str]
    is_admin: bool
    max_priority: str | None = Field(description="Highest priority of the caller's jobs; null: any")
    may_choose_lane: bool = Field(description="Whether the caller may choose the lane of a job")
    token: TokenFacts


class TenantRequest(ApiBody):
    weight: float = Field(1.0, gt=0, le=1e6)
    guaranteed_gpus: Gpus | None = None
    limit_gpus: Gpus | None = None
    reclaim_s: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    max_pending: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    on_hang: Literal["warn", "stop"] = "stop"
    run_as: Annotated[str, Field(pattern=r"^[0-9]{1,10}(:[0-9]{1,10})?$")] | None = Field(
        None, description="UID:GID of its tasks, if the service runs as root"
    )
    max_priority: Priority = Field(
        "normal", description="Highest priority of its users' jobs, by name or as an integer. Administrators have none"
    )
    may_choose_lane: bool = Field(False, description="Whether its users may choose the lane of a job")
    urgent_gpu_hours: Annotated[float, Field(ge=0, le=1e9)] | None = Field(
        None, description="GPU-hours per 30 days of its runs with priorities above high; null: no budget"
    )


class NewTenant(TenantRequest):
    name: Name


class TenantView(ApiView):
    name: str
    weight: float
    guaranteed_gpus: int | None
    limit_gpus: int | None
    reclaim_s: float
    max_pending: int | None
    on_hang: str
    run_as: str | None
    max_priority: str
    may_choose_lane: bool
    urgent_gpu_hours: float | None = Field(description="Budget; null: none")
    urgent_gpu_hours_used: float = Field(
        description="GPU-hours of its runs with priorities above high in the last 30 days; running ones count up to now"
    )


class TenantPage(ApiView):
    items: list[TenantView]
    next: Next


class UserRequest(ApiBody):
    tenant: Name = "default"
    role: RoleName = "member"
    disabled: bool = False
    max_priority: OwnMaxPriority = None
    may_choose_lane: OwnMayChooseLane = None


class NewUser(UserRequest):
    name: Name


class UserChange(ApiBody):
    tenant: Name | None = None
    role: RoleName | None = None
    disabled: bool | None = None
    max_priority: OwnMaxPriority = None
    may_choose_lane: OwnMayChooseLane = None


class UserView(ApiView):
    name: str
    tenant: str
    role: RoleName
    disabled: bool
    max_priority: str | None
    may_choose_lane: OwnMayChooseLane


class UserPage(ApiView):
    items: list[UserView]
    next: Next


class TokenRequest(ApiBody):
    label: Line = ""
    user: Name | None = Field(
        None, description="Owner of the token; null: the caller. Only administrators may name others"
    )
    scopes: list[Scope] | None = Field(None, min_length=1, max_length=3, description="null: all scopes of the caller")
    expires_s: Seconds | None = Field(None, description="Seconds since 1970; null: as long as the caller's token")


class TokenView(ApiView):
    id: str
    user: str
    label: str
    scopes: list[str]
    created_s: float
    expires_s: float | None
    revoked_s: float | None
    last_used_s: float | None


class NewToken(TokenView):
    token: str = Field(description="Shown only once")


class TokenPage(ApiView):
    items: list[TokenView]
    next: Next


class AuditLine(ApiView):
    id: int
    at_s: float
    actor: str
    action: str
    target: str
    data: Any


class AuditPage(ApiView):
    items: list[AuditLine]
    next: Next


class SecretView(ApiView):
    name: str


class SecretPage(ApiView):
    items: list[SecretView]
    next: Next


class SecretRequest(ApiBody):
    value: str = Field(max_length=65_536)


class RuleRequest(ApiBody):
    kinds: list[Annotated[str, Field(max_length=32)]] = Field(min_length=1, max_length=20)
    url: str = Field(min_length=1, max_length=2048)
    label: Line = ""


class RuleView(ApiView):
    id: int
    user: str
    kinds: list[str]
    url: str = Field(description="Without its secrets")
    label: str
    created_s: float


class RulePage(ApiView):
    items: list[RuleView]
    next: Next


class NoticeView(ApiView):
    id: int
    rule: int
    job: str
    kind: str
    title: str
    tries: int
    next_s: float
    state: str
    error: str
    created_s: float


class NoticePage(ApiView):
    items: list[NoticeView]
    next: Next


class TestRequest(ApiBody):
    """Channel to test."""

    rule: int | None = Field(None, ge=1, le=2**53)
    url: str | None = Field(None, min_length=1, max_length=2048)


class TestResult(ApiView):
    ok: bool
    error: str
