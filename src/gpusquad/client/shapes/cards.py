"""A card, who is on it, and how it is divided."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class Share(TypedDict):
    sm: float | None
    memory_bytes: int | None
    isolation: str
    """shared or isolated"""


class CardUser(TypedDict):
    """Of other tenants only that there is one."""

    id: str | None
    name: str | None
    user: str | None
    share: Share | None


class Sample(TypedDict):
    """None: the card does not tell."""

    at_s: float
    utilisation_ratio: float | None
    memory_utilisation_ratio: float | None
    memory_used_bytes: float | None
    power_w: float | None
    temperature_c: float | None
    sm_clock_mhz: float | None


class CardView(TypedDict):
    id: str
    uuid: str | None
    model: str
    memory_bytes: int
    index: int
    state: str
    cause: str
    jobs: list[CardUser]
    sample: Sample | None
    simulated: bool


class CardDivide(TypedDict):
    """What a card is to be divided by, and what became of that."""

    policy: str
    own: bool
    of_mode: str
    revision: int | None
    since_s: float | None
    by: str
    note: str
    effect: str
    """live, told, unused or kept"""
    message: str


class CardDivision(TypedDict):
    id: str
    uuid: str | None
    node: str
    index: int
    model: str
    memory_bytes: int
    simulated: bool
    divide: CardDivide


class TenantNow(TypedDict):
    """One of those who share a card. Of other tenants' jobs: only what room they take."""

    job: str | None
    name: str | None
    user: str | None
    id: str | None
    groups: int
    sm_ratio: float | None
    used_bytes: int
    quota_bytes: int
    peak_bytes: int | None
    weight: float | None
    priority: int | None
    slo: dict[str, Any] | None
    attainment_ratio: float | None
    credit_us: int | None
    waiting: int | None
    waited_s: float | None
    is_idle: bool | None
    processes: int | None
    iterations_per_s: NotRequired[float | None]
    """As its launches repeat. None: no iteration was found in them."""
    isolation: str
    note: str


class StrangerNow(TypedDict):
    pid: int
    name: str
    memory_bytes: int


class CardNow(TypedDict):
    policy: str
    configuration: str
    length_us: int
    squads: int
    groups: int | None
    why: str
    failure: str
    pool: str
    context_bytes: int
    tenants: list[TenantNow]
    stranger_count: int
    strangers: list[StrangerNow]
    rule: str


class CardDetail(CardDivision):
    now: CardNow | None
    """None: the card is not divided now."""


class DivideRevision(TypedDict):
    revision: int
    at_s: float
    by: str
    card: str
    policy: str | None
    note: str
