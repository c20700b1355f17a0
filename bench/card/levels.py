"""Who passes whom by priorities of streams, of MPS clients, and of both: ``python -m bench.card levels``.

Two training jobs under MPS that never stop, with grants written by hand. The daemon raises and lowers tenants by their
streams while they run, and clients keep the priority that they were started with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.card import ways
from bench.card.marks import markdown, number
from bench.card.place import Lost, Place
from bench.card.solo import saturated_per_s, together_per_s
from bench.card.stage import Stage, Tenant
from bench.card.training import FIRST, SECOND
from bench.card.ways import Seat
from gpusquad.gpu.region.pages import Grant
from gpusquad.model.squad import MAX_LEVEL

COUPLE = ("googlenet", "vgg16")
"""The kernels of the first are short."""
TINY = ("tiny-training", "tiny-training")


@dataclass(frozen=True)
class Way:
    first: str
    second: str
    level: int = 0
    """Priority level of the first client; the other has none."""

    @property
    def seats(self) -> list[Seat]:
        return [Seat(FIRST, self.first), Seat(SECOND, self.second)]


CONDITIONS = {
    "MPS": Way(ways.MPS, ways.MPS),
    "second client lower": Way(ways.MPS, ways.LOW),
    "first raised": Way(ways.FIXED, ways.FIXED, MAX_LEVEL),
    "both clients lower, first raised": Way(ways.FIXED_LOW, ways.FIXED_LOW, MAX_LEVEL),
    "first client lower, and raised": Way(ways.FIXED_LOW, ways.FIXED, MAX_LEVEL),
    "first client lower, not raised": Way(ways.FIXED_LOW, ways.FIXED),
}


def levels(place: Place, programs: tuple[str, str] = COUPLE, seconds: float = 4.0, rounds: int = 2) -> dict[str, Any]:
    """Rates of each client in every condition and round, or the reason why they could not be measured."""
    with Stage(place, [Tenant(name, what) for name, what in zip((FIRST, SECOND), programs, strict=True)]) as stage:
        alone_seats = [Seat(name, ways.PLAIN) for name in (FIRST, SECOND)]
        lost = stage.ready([*alone_seats, *(seat for way in CONDITIONS.values() for seat in way.seats)])
        alone = {seat.tenant: saturated_per_s(stage, seat, seconds) for seat in alone_seats}
        found: dict[str, list[Any]] = {condition: [] for condition in CONDITIONS}
        for _ in range(rounds):
            for condition, way in CONDITIONS.items():
                found[condition].append(_measured(stage, way, alone, seconds, lost))
    return {"programs": programs, "seconds": seconds, "alone_per_s": alone, "conditions": found}


def _measured(stage: Stage, way: Way, alone: Mapping[str, float], seconds: float, lost: Mapping[Seat, str]) -> Any:
    missing = [lost[seat] for seat in way.seats if seat in lost]
    if missing:
        return missing[0]
    try:
        if ways.needs_region(way.first):
            stage.grants(
                {FIRST: Grant(neighbours=0b11, priority_level=way.level), SECOND: Grant(neighbours=0b11)}, way.first
            )
        per_s = together_per_s(stage, way.seats, seconds)
    except (Lost, OSError) as error:
        return str(error)
    return {seat.tenant: round(rate / alone[seat.tenant], 4) for seat, rate in per_s.items()}


def shown(found: Mapping[str, Any]) -> str:
    first, second = found["programs"]
    rows = [(condition, *_cells(rounds)) for condition, rounds in found["conditions"].items()]
    return markdown(("condition", f"{first} / alone", f"{second} / alone", "both"), rows)


def _cells(rounds: Sequence[Any]) -> tuple[str, str, str]:
    """Of each round, so that its noise is seen."""
    good = [one for one in rounds if not isinstance(one, str)]
    if not good:
        return rounds[0], "–", "–"

    def told(values: Sequence[float]) -> str:
        return ", ".join(map(number, values))

    sums = [one[FIRST] + one[SECOND] for one in good]
    return told([one[FIRST] for one in good]), told([one[SECOND] for one in good]), told(sums)
