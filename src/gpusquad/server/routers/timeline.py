"""Cards over time: past, present and planned."""

from __future__ import annotations

from fastapi import APIRouter

from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S
from gpusquad.server.errors import NotFound
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import QueryLine, Svc, TimeS, to_us
from gpusquad.server.permissions import Reader
from gpusquad.server.schemas.timeline import TimelineView
from gpusquad.server.services.queries.timeline import TimelineSpan, timeline
from gpusquad.server.wiring import Services

router = APIRouter(tags=["timeline"])
MAX_US = 31 * 86_400 * US_PER_S
USUAL_US = 86_400 * US_PER_S
"""Default span before now; the span after now is half of it."""


@router.get("/timeline", response_model=TimelineView)
async def get_timeline(
    who: Reader, svc: Svc, from_s: TimeS = None, to_s: TimeS = None, node: QueryLine = None,
) -> Answer:  # fmt: skip
    """Show past and running jobs on the cards with predicted ends, reservations, planned starts and maintenance
    windows. By default from a day before now to half a day after; at most 31 days and 20,000 bars. Jobs of other
    tenants are not named; pending ones are left out while the plan has no cards for them."""
    span = _span(svc.clock.now_us(), to_us(from_s), to_us(to_s))
    return Answer(
        await svc.slow.run(lambda: timeline(svc, who, svc.scheduler.queries.forecaster, span, _cards_of(svc, node)))
    )


def _span(now_us: int, from_us: int | None, until_us: int | None) -> TimelineSpan:
    if from_us is None:
        from_us = (now_us if until_us is None else min(now_us, until_us)) - USUAL_US
    if until_us is None:
        until_us = min(max(now_us, from_us) + USUAL_US // 2, from_us + MAX_US)
    if until_us <= from_us:
        raise Invalid("to_s", "must be after from_s", "leave it out for half a day from now")
    if until_us - from_us > MAX_US:
        raise Invalid("from_s", "is more than 31 days before to_s", "request a shorter span")
    return TimelineSpan(now_us, max(0, from_us), until_us)


def _cards_of(svc: Services, node: str | None) -> frozenset[str] | None:
    """None: all cards."""
    if node is None:
        return None
    cards = frozenset(card.id for card in svc.scheduler.node_service.cards() if card.node == node)
    if not cards and all(one.id != node for one in svc.scheduler.node_service.nodes()):
        raise NotFound(f"there is no node {node!r}", field="node", cure="gpusquad nodes lists them")
    return cards
