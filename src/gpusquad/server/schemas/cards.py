"""Cards: how they are divided among those who share them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpusquad.server.params import Line
from gpusquad.server.schemas.base import ApiBody, ApiView, Next


class DivideRequest(ApiBody):
    policy: Line | None = Field(description="As in slo or hybrid:alpha=0.5; null: what the mode says, again")
    note: Line = ""


class DivideView(ApiView):
    """What a card is to be divided by, and what became of that."""

    policy: str
    own: bool = Field(description="Set for this card; otherwise it is the mode's")
    of_mode: str = Field(description="What the mode says")
    revision: int | None = Field(description="The last change for this card; null: there was none")
    since_s: float | None
    by: str
    note: str
    effect: Literal["live", "told", "unused", "kept"] = Field(
        description="live: divided by it now. told: for a moment still by another. unused: nobody shares the card now. "
        "kept: cards are not divided here"
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
    """One of those who share a card. Of other tenants' jobs: only what room they take."""

    job: str | None
    name: str | None
    user: str | None
    id: str | None = Field(description="As the card's daemon calls it; for administrators")
    groups: int = Field(description="SM groups it may use; 0: all of them")
    sm_ratio: float | None = Field(description="These groups as a part of all; null: not known")
    used_bytes: int
    quota_bytes: int = Field(description="0: no limit")
    peak_bytes: int | None
    weight: float | None
    priority: int | None
    slo: dict[str, Any] | None
    attainment_ratio: float | None = Field(description="How far its goals were met of late; 1: all")
    credit_us: int | None = Field(description="GPU time it may still use in this squad; null: it is not held back")
    waiting: int | None = Field(description="Of its processes, those that wait for credit now")
    waited_s: float | None
    is_idle: bool | None
    processes: int | None
    iterations_per_s: float | None = Field(description="As its launches repeat; null: no iteration was found in them")
    isolation: str = Field(description="shared or isolated; empty: not known")
    note: str


class StrangerNow(ApiView):
    """A process on the card that nothing holds: of no job, or without the library."""

    pid: int
    name: str
    memory_bytes: int


class CardNow(ApiView):
    """How a card is divided at this moment."""

    policy: str
    configuration: str = Field(description="unrestricted, strict, semi-spatial or temporal")
    length_us: int
    squads: int
    groups: int | None = Field(description="SM groups of the card; null: not known")
    why: str = Field(description="The policy's own words; for administrators")
    failure: str = Field(description="The policy's last error, while it does not answer; for administrators")
    pool: str = Field(description="How processes of several jobs run at once on the card, in words; empty: not known")
    context_bytes: int = Field(description="Charged to a job's part for the CUDA context of each of its processes")
    tenants: list[TenantNow]
    stranger_count: int
    strangers: list[StrangerNow] = Field(description="For administrators")
    rule: str = Field(description="What becomes of strangers: report, refuse or share")


class CardDetail(CardDivision):
    now: CardNow | None = Field(description="null: the card is not divided now")


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
