"""Whether each card may be used: a fault takes it out, a time without faults brings it back."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpusquad.agent.inventory import CardReading

WELL_FOR_S = 30.0
_FORGIVEN_AFTER_S = 3600.0
_MAX_DOUBLINGS = 6


@dataclass(slots=True)
class _Card:
    said_ok: bool = False
    """Also false at first: a fault reported before this start must be reported as over."""
    cause: str | None = None
    well_since_s: float | None = None
    uncorrected: int | None = None
    strikes: int = 0
    struck_s: float = float("-inf")


class CardHealth:
    """Health reports of cards.

    Every card is reported ok once after the start, when it has been well for a while. A card that fails again within
    the hour must stay well twice as long each time, so that an intermittent fault does not end a job every minute.
    """

    def __init__(self, cards: Iterable[str], well_for_s: float = WELL_FOR_S) -> None:
        self._cards = {card: _Card() for card in cards}
        self._well_for_s = well_for_s
        self._lock = threading.Lock()

    def fault(self, card_id: str, cause: str, now_s: float) -> list[dict[str, Any]]:
        """Record a fault of a card. Its recovery time starts now, even if it answers well right after."""
        with self._lock:
            card = self._cards.get(card_id)
            if card is None:
                return []
            card.well_since_s = now_s
            return self._fail(card_id, card, cause, now_s)

    def see(self, reading: CardReading, now_s: float) -> list[dict[str, Any]]:
        """Record how a card answered just now."""
        with self._lock:
            card = self._cards[reading.id]
            trouble = reading.trouble or _new_errors(card, reading)
            if trouble is not None:
                card.well_since_s = None
                return self._fail(reading.id, card, trouble, now_s)
            if card.well_since_s is None:
                card.well_since_s = now_s
            if card.said_ok or now_s - card.well_since_s < self._needed_s(card):
                return []
            card.said_ok, card.cause = True, None
            return [{"kind": "card_ok", "card": reading.id}]

    def _fail(self, card_id: str, card: _Card, cause: str, now_s: float) -> list[dict[str, Any]]:
        if card.cause == cause:
            return []
        if card.cause is None:
            card.strikes = card.strikes + 1 if now_s - card.struck_s < _FORGIVEN_AFTER_S else 1
            card.struck_s = now_s
        card.said_ok, card.cause = False, cause
        return [{"kind": "card_fault", "card": card_id, "cause": cause}]

    def _needed_s(self, card: _Card) -> float:
        return self._well_for_s * 2 ** min(max(card.strikes - 1, 0), _MAX_DOUBLINGS)


def _new_errors(card: _Card, reading: CardReading) -> str | None:
    """Uncorrected errors since the last reading. The driver counts from zero after it is loaded."""
    before, now = card.uncorrected, reading.ecc_uncorrected
    if now is None:
        return None
    card.uncorrected = now
    if before is None or now <= before:
        return None
    return f"{now - before} new uncorrected memory errors (ECC), {now} in all"
