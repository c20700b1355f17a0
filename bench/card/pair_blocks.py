"""One block of one condition: a service and a training job on one stage, started together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.card import pair_plan as plan
from bench.card.arrivals import arrivals
from bench.card.clocks import watch
from bench.card.host import stolen_ms
from bench.card.pair_plan import LATENCY, TRAINING, Pair
from bench.card.stage import Stage
from bench.card.ways import Seat, needs_daemon

PATIENCE_S = 3.0
"""Requests that have not started this long after the last arrival count with their latency so far."""
_GRACE_S = 20.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Timing of one block in seconds. Counting starts after the lead-in. The training job continues for the tail, so
    that the last requests do not find an empty card."""

    lead_in_s: float = 0.4
    length_s: float = 5.0
    tail_s: float = 0.3

    @property
    def counted_to_s(self) -> float:
        return self.lead_in_s + self.length_s

    @property
    def all_s(self) -> float:
        return self.counted_to_s + self.tail_s


def run_block(stage: Stage, pair: Pair, condition: str, percent: int, seed: str, timing: Timing) -> dict[str, Any]:
    """Measured part of a row. Raises Lost if a process died."""
    return run_seats(stage, pair, plan.seats_of(condition, percent), seed, timing)


def run_seats(stage: Stage, pair: Pair, seats: list[Seat], seed: str, timing: Timing) -> dict[str, Any]:
    coming = arrivals(pair.load, timing.counted_to_s, seed)
    asked: dict[Seat, tuple[str, dict[str, Any]]] = {}
    for seat in seats:
        if seat.tenant == LATENCY:
            report = stage.report_to(LATENCY, seat.way) if needs_daemon(seat.way) else None
            give_up_s = timing.counted_to_s + PATIENCE_S
            asked[seat] = ("serve", {"offsets_s": coming, "give_up_s": give_up_s, "report": report})
        else:
            counted = (timing.lead_in_s, timing.counted_to_s)
            asked[seat] = ("iterate", {"length_s": timing.all_s, "counted": counted})
    card: dict[str, Any] = {}

    def meanwhile(start_s: float) -> None:
        card.update(watch(stage.place, start_s + timing.lead_in_s, start_s + timing.counted_to_s))

    before_ms = stolen_ms()
    answers = stage.together(asked, timing.all_s + PATIENCE_S + _GRACE_S, meanwhile)
    card["stolen_ms"] = round(stolen_ms() - before_ms)
    by_tenant = {seat.tenant: answer for seat, answer in answers.items()}
    return {"length_s": timing.length_s, **card, **_served(by_tenant.get(LATENCY), coming, timing),
            **_trained(by_tenant.get(TRAINING), timing)}  # fmt: skip


def _served(answer: Mapping[str, Any] | None, coming: list[float], timing: Timing) -> dict[str, Any]:
    if answer is None:
        return {"late_us": []}
    pairs = zip(coming, answer["late_us"], strict=True)
    late_us = [us for offset_s, us in pairs if offset_s >= timing.lead_in_s]
    return {"late_us": late_us, "unserved": answer["unserved"], "service_ended_s": round(answer["ended_s"], 3)}


def _trained(answer: Mapping[str, Any] | None, timing: Timing) -> dict[str, Any]:
    if answer is None:
        return {}
    return {"steps_per_s": answer["steps"] / timing.length_s, "training_ended_s": round(answer["ended_s"], 3)}
