"""Measurements of a client alone: at full speed, and on fewer SMs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.card.place import Lost
from bench.card.stage import Stage
from bench.card.ways import FIXED, Seat

CURVE_GROUPS = (2, 5, 10)
CURVE_S = 0.5
_GRACE_S = 30.0
_WHOLE_MILLI = 1000


def saturated_per_s(
    stage: Stage, seat: Seat, length_s: float, meanwhile: Callable[[float], None] = lambda start_s: None
) -> float:
    """Steps or requests per second of a client that never waits for an arrival."""
    return together_per_s(stage, [seat], length_s, meanwhile)[seat]


def together_per_s(
    stage: Stage, seats: Sequence[Seat], length_s: float, meanwhile: Callable[[float], None] = lambda start_s: None
) -> dict[Seat, float]:
    """The same of several at once."""
    lead_in_s = length_s / 4
    request = {"length_s": lead_in_s + length_s, "counted": (lead_in_s, lead_in_s + length_s)}
    answers = stage.together(dict.fromkeys(seats, ("iterate", request)), length_s + _GRACE_S, meanwhile)
    return {seat: answer["steps"] / length_s for seat, answer in answers.items()}


def work_us(stage: Stage, seat: Seat) -> float:
    """GPU time of one step or request without neighbours."""
    return stage.together({seat: ("work", {})}, _GRACE_S)[seat]["work_us"]


def curves(stage: Stage, names: Sequence[str], length_s: float = CURVE_S) -> dict[str, Any]:
    """Of each tenant: thousandths of the SMs and the speed with them over that with all; and its speed with all.

    Whoever cannot be measured is left out.
    """
    found: dict[str, Any] = {}
    for name in names:
        try:
            seat = Seat(name, FIXED)
            stage.masks({name: 0})
            whole = saturated_per_s(stage, seat, length_s)
            points = []
            for groups in CURVE_GROUPS:
                stage.masks({name: (1 << groups) - 1})
                part = round(_WHOLE_MILLI * groups * stage.place.sms_per_group / stage.place.sms)
                points.append([part, round(min(1.0, saturated_per_s(stage, seat, length_s) / whole), 4)])
            found[name] = {"points": [*points, [_WHOLE_MILLI, 1.0]], "per_s": whole}
        except (Lost, ZeroDivisionError):
            continue
    return found


def facts_of(curve: dict[str, Any] | None) -> dict[str, Any]:
    """In the form in which the card daemon reads it."""
    return {"curve": curve["points"], "solo_per_s": curve["per_s"]} if curve else {}
