"""Free capacity for a gang of a given size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from gpusquad.server.answers import CardStatus
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import Svc
from gpusquad.server.permissions import Reader
from gpusquad.server.schemas.free import FreeView
from gpusquad.server.views import Plain
from gpusquad.store import marks

router = APIRouter(tags=["cluster"])


@router.get("/free", response_model=FreeView)
def get_free(_: Reader, svc: Svc, gpus: Annotated[int, Query(ge=1, le=1_000_000)] = 1) -> Answer:
    """Count cards by state, and the gangs of this size that fit."""
    with svc.database.read() as c:
        cordoned = {row.target for row in marks.all(c, "cordon")}
    return Answer(counted(svc.scheduler.node_service.cards(), gpus, cordoned))


def counted(cards: Sequence[CardStatus], gpus: int, cordoned: Collection[str]) -> Plain:
    """``cordoned``: by an administrator. Any other block is a fault."""
    states = Counter(card.state for card in cards)
    blocks = Counter(card.node for card in cards if card.state == "free")
    gangs = sum(count // gpus for count in blocks.values())
    by_admin = sum(card.state == "cordoned" and card.id in cordoned for card in cards)
    return {
        "gpus": gpus,
        "total": len(cards),
        "free": states["free"],
        "usable": gangs * gpus,
        "gangs": gangs,
        "gangs_across": states["free"] // gpus,
        "largest_block": max(blocks.values(), default=0),
        "busy": states["busy"],
        "shared": states["shared"],
        "unhealthy": states["cordoned"] - by_admin,
        "cordoned": by_admin,
        "drained": states["drained"],
        "taken_outside": states["taken_outside"],
    }
