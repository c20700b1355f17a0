"""Cards and their divide policies."""

from __future__ import annotations

from fastapi import APIRouter

from gpusquad.server.card_views import detail_view, division_view, revision_view
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import USUAL_ROWS, CardRef, Limit, Svc
from gpusquad.server.permissions import Admin, Reader
from gpusquad.server.schemas.cards import CardDetail, CardDivision, CardDivisionPage, DivideRequest, DivideRevisionPage
from gpusquad.server.views import page

# Ids of cards can contain a slash ("node0/3"), written as it is or as %2F.
router = APIRouter(prefix="/cards", tags=["cards"])


@router.get("", response_model=CardDivisionPage)
def list_cards(_: Reader, svc: Svc) -> Answer:
    """List all cards with their divide policies."""
    return Answer(page([division_view(division) for division in svc.divides.all()]))


@router.put("/{card:path}/divide", response_model=CardDivision)
def set_card_divide(card: CardRef, body: DivideRequest, who: Admin, svc: Svc) -> Answer:
    """Set a card's divide policy. Jobs on it continue; the change takes effect with the next squad."""
    data = {"policy": body.policy, "note": body.note}
    division = svc.divides.set(
        card, body.policy, who, body.note, lambda c, found: svc.audit.note(c, who, "card.divide", found, data)
    )
    return Answer(division_view(division))


@router.get("/{card:path}/divide/revisions", response_model=DivideRevisionPage)
def list_card_divides(card: CardRef, _: Reader, svc: Svc, limit: Limit = USUAL_ROWS) -> Answer:
    """List all changes of a card's divide policy, newest first."""
    return Answer(page([revision_view(row) for row in svc.divides.revisions(card, limit)]))


# Matches every path that no route before it matches: other routes for cards go above, or into earlier routers.
@router.get("/{card:path}", response_model=CardDetail)
def get_card(card: CardRef, who: Reader, svc: Svc) -> Answer:
    """Show how a card is divided now. Jobs of other tenants are not named."""
    return Answer(detail_view(svc.divides.get(card), who))
