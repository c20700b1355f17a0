"""Cards and how they are divided."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpusquad.server.params import Line
from gpusquad.server.schemas.base import ApiBody, ApiView, Next


class DivideRequest(ApiBody):
    policy: Line | None = Field(description="For example slo or hybrid:alpha=0.5; null: the mode's policy")
    note: Line = ""


class DivideView(ApiView):
    """Divide policy of a card and whether it is in effect."""

    policy: str
    own: bool = Field(description="Set for this card; otherwise the mode's policy")
    of_mode: str = Field(description="The mode's policy")
    revision: int | None = Field(description="Last change for this card; null: none")
    since_s: float | None
    by: str
    note: str
    effect: Literal["live", "told", "unused", "kept"] = Field(
        description="live: in effect. told: still changing, or the daemon does not answer. unused: the card is not "
        "shared now. kept: cards are not divided here"
    )
    message: str


class CardDivision(ApiView):
    id: str
    uuid: str | None
    node: str
    index: int
    model: str
    memory_bytes: int
    simulated: bool
    divide: DivideView


class CardDivisionPage(ApiView):
    items: list[CardDivision]
    next: Next


class TenantNow(ApiView):
    """A GPU client of a shared card. Of other tenants' jobs only their space is shown."""

    job: str | None
    name: str | None
    user: str | None
    id: str | None = Field(description="Name used by the card daemon; for administrators")
    groups: int = Field(description="SM groups it may use; 0: all")
    sm_ratio: float | None = Field(description="These groups as a fraction of all; null: unknown")
    used_bytes: int
    quota_bytes: int = Field(description="0: no limit")
    peak_bytes: int | None
    weight: float | None
    priority: int | None
    slo: dict[str, Any] | None
    attainment_ratio: float | None = Field(description="Recent SLO attainment; 1: met; null: unknown, or no SLO")
    credit_us: int | None = Field(description="GPU time left in this squad; null: not limited")
    waiting: int | None = Field(description="Number of its processes that wait for credit")
    waited_s: float | None
    is_idle: bool | None
    processes: int | None
    iterations_per_s: float | None = Field(description="From repeating launches; null: no iteration found")
    isolation: str = Field(description="shared or isolated; empty: unknown")
    note: str


class UnmanagedNow(ApiView):
    """An unmanaged process on the card: of no job, or without the shim."""

    pid: int
    name: str
    memory_bytes: int


class StrangerNow(UnmanagedNow):
    """Deprecated name of ``UnmanagedNow``."""


class CardNow(ApiView):
    """Current division of a card."""

    policy: str
    configuration: str = Field(description="unrestricted, strict, semi-spatial or temporal")
    length_us: int
    squads: int
    groups: int | None = Field(description="SM groups of the card; null: unknown")
    why: str = Field(description="Reason given by the policy; for administrators")
    failure: str = Field(description="Last error of a failing policy; for administrators")
    pool: str = Field(description="How processes of several jobs run at once on the card; empty: unknown")
    context_bytes: int = Field(description="Charged to a job's quota for the CUDA context of each of its processes")
    tenants: list[TenantNow]
    unmanaged_count: int = Field(description="Number of unmanaged processes")
    unmanaged: list[UnmanagedNow] = Field(description="Unmanaged processes; for administrators")
    stranger_count: int = Field(
        description="Old name of unmanaged_count; removed in /api/v2", json_schema_extra={"deprecated": True}
    )
    strangers: list[StrangerNow] = Field(
        description="Old name of unmanaged; removed in /api/v2", json_schema_extra={"deprecated": True}
    )
    rule: str = Field(description="Rule for unmanaged processes: report, refuse or share")


class CardDetail(CardDivision):
    now: CardNow | None = Field(description="null: not divided now")


class DivideRevision(ApiView):
    revision: int
    at_s: float
    by: str
    card: str
    policy: str | None
    note: str


class DivideRevisionPage(ApiView):
    items: list[DivideRevision]
    next: Next
