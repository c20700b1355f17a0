"""Why a job is pending: a code and numbers for programs, a message and a cure for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class ReasonCode(StrEnum):
    """All codes for a pending or refused job."""

    NEVER_FITS = "never_fits"
    TENANT_LIMIT = "tenant_limit"
    LANE_LIMIT = "lane_limit"
    NO_CARDS = "no_cards"
    NO_BLOCK = "no_block"
    NO_SHARE = "no_share"
    NO_CPU = "no_cpu"
    NO_MEMORY = "no_memory"
    NO_EXTRA = "no_extra"
    NO_MODEL = "no_model"
    WHERE = "where"
    CARD_TAKEN = "card_taken"
    GANG = "gang"
    PLACE = "place"
    INTERFERENCE = "interference"
    RESERVED = "reserved"
    OVERSTAYED = "overstayed"
    WINDOW = "window"
    DOWN = "down"
    BEHIND = "behind"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason why a job is pending."""

    code: ReasonCode
    message: str
    cure: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    who: tuple[str, ...] = ()
    """Jobs or nodes that cause it."""

    def __str__(self) -> str:
        return self.message + (f"; {self.cure}" if self.cure else "")
