"""Whether each card may be used: a fault takes it out, a time without faults brings it back."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpusquad.agent.inventory import CardReading, TestResult
from gpusquad.model.card_faults import FaultClass, class_of_trouble

WELL_FOR_S = 30.0
_FORGIVEN_AFTER_S = 3600.0
_MAX_DOUBLINGS = 6
_REPEAT_S = 0.05
"""The same event is reported again after this time. A program may cause it many times at once."""
_TEST_AGAIN_S = 600.0
"""A card that failed its self-test is tested again after this time."""


@dataclass(slots=True)
class _Card:
    said_ok: bool = False
    """Also false at first: a fault reported before this start must be reported as over."""
    cause: str | None = None
    well_since_s: float | None = None
    uncorrected: int | None = None
    strikes: int = 0
    struck_s: float = float("-inf")
    told_s: float = float("-inf")
    kind: FaultClass = "card"
    tested_s: float | None = None
    """Last self-test since the fault."""
    failed_test: bool = False
    """Only a passed self-test brings it back."""


class CardHealth:
    """Health reports of cards.

    Every card is reported ok once after the start, when it has been well for a while. A card that fails again within
    the hour must stay well twice as long each time, so that an intermittent fault does not end a job every minute.
    """

    def __init__(self, cards: Iterable[str], well_for_s: float = WELL_FOR_S) -> None:
        self._cards = {card: _Card() for card in cards}
        self._well_for_s = well_for_s
        self._lock = threading.Lock()

    def fault(self, card_id: str, cause: str, now_s: float, kind: FaultClass = "card") -> list[dict[str, Any]]:
        """Record an event. The recovery time of the card starts now, even if it answers well right after. The same
        event is reported again: the service may have left or given the card to the next job, which has it as well."""
        with self._lock:
            card = self._cards.get(card_id)
            if card is None:
                return []
            if kind == "program":  # the card stays in use
                return [_event_message(card_id, cause, kind)]
            card.well_since_s = now_s
            if card.cause == cause and card.kind == kind and now_s - card.told_s >= _REPEAT_S:
                card.told_s, card.tested_s = now_s, None  # no further strike: one failure may be many events
                return [_event_message(card_id, cause, kind)]
            return [message | {"event": True} for message in self._fail(card_id, card, cause, now_s, kind)]

    def tested(self, card_id: str, result: TestResult, now_s: float) -> list[dict[str, Any]]:
        """Record a self-test of a card. If it failed, the card is out of use until another one passes."""
        with self._lock:
            card = self._cards.get(card_id)
            if card is None:
                return []
            if result.passed is False:
                card.failed_test, card.well_since_s = True, None
                told = self._fail(card_id, card, f"self-test failed: {result.detail}", now_s, "card")
                card.tested_s = now_s
                return told
            card.tested_s = now_s
            if result.passed is None:
                return []
            was_failed, card.failed_test = card.failed_test, False
            can_clear = was_failed or card.kind == "doubtful"
            if card.cause is None or card.well_since_s is None or not can_clear:
                return []
            card.said_ok, card.cause = True, None
            return [{"kind": "card_ok", "card": card_id}]

    def to_test(self, now_s: float) -> list[str]:
        """Cards whose fault a self-test may clear."""
        with self._lock:
            return [name for name, card in self._cards.items() if card.cause is not None and _is_due(card, now_s)]

    def see(self, reading: CardReading, now_s: float) -> list[dict[str, Any]]:
        """Record how a card answered just now."""
        with self._lock:
            card = self._cards[reading.id]
            trouble = reading.trouble or _new_errors(card, reading)
            if trouble is not None:
                card.well_since_s = None
                kind = "card" if reading.trouble is None else class_of_trouble(trouble)
                return self._fail(reading.id, card, trouble, now_s, kind)
            if card.well_since_s is None:
                card.well_since_s = now_s
            if card.said_ok or card.failed_test or now_s - card.well_since_s < self._needed_s(card):
                return []
            card.said_ok, card.cause = True, None
            return [{"kind": "card_ok", "card": reading.id}]

    def _fail(self, card_id: str, card: _Card, cause: str, now_s: float, kind: FaultClass) -> list[dict[str, Any]]:
        if card.cause == cause:
            return []
        if card.cause is None:
            card.strikes = card.strikes + 1 if now_s - card.struck_s < _FORGIVEN_AFTER_S else 1
            card.struck_s = now_s
        card.said_ok, card.cause, card.kind = False, cause, kind
        card.told_s, card.tested_s = now_s, None
        return [_fault_message(card_id, cause, kind)]

    def _needed_s(self, card: _Card) -> float:
        return self._well_for_s * 2 ** min(max(card.strikes - 1, 0), _MAX_DOUBLINGS)


def _is_due(card: _Card, now_s: float) -> bool:
    if card.failed_test:
        return card.tested_s is None or now_s - card.tested_s >= _TEST_AGAIN_S
    return card.kind == "doubtful" and card.tested_s is None


def _fault_message(card_id: str, cause: str, kind: FaultClass) -> dict[str, Any]:
    return {"kind": "card_fault", "card": card_id, "cause": cause, "class": kind}


def _event_message(card_id: str, cause: str, kind: FaultClass) -> dict[str, Any]:
    """Of a fault that was reported once. The card may answer well."""
    return _fault_message(card_id, cause, kind) | {"event": True}


def _new_errors(card: _Card, reading: CardReading) -> str | None:
    """Uncorrected errors since the last reading. The driver counts from zero after it is loaded."""
    before, now = card.uncorrected, reading.ecc_uncorrected
    if now is None:
        return None
    card.uncorrected = now
    if before is None or now <= before:
        return None
    return f"{now - before} new uncorrected memory errors (ECC), {now} in all"
