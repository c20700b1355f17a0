"""Use of GPU-hours."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from gpusquad.model.units import US_PER_S
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import Svc
from gpusquad.server.permissions import Reader
from gpusquad.server.routers.app_state import kept
from gpusquad.server.schemas.efficiency import EfficiencyView
from gpusquad.server.services.usage.efficiency import EfficiencyService
from gpusquad.server.views import Plain
from gpusquad.server.wiring import Services

router = APIRouter(tags=["efficiency"])
MAX_HOURS = 168
Hours = Annotated[int, Query(ge=1, le=MAX_HOURS, description="Hours before now")]


async def efficiency_service(request: Request) -> EfficiencyService:
    svc: Services = request.app.state.services
    return kept(
        request.app.state,
        "efficiency",
        lambda: EfficiencyService(svc.database, svc.clock.now_us, svc.scheduler.node_service.cards),
    )


@router.get("/efficiency", response_model=EfficiencyView)
async def get_efficiency(
    _: Reader, svc: Svc, service: Annotated[EfficiencyService, Depends(efficiency_service)], hours: Hours = 24
) -> Answer:
    """Show GPU-hours of all tenants by use, in total and by node. Attempts give the allocation, samples the
    utilisation, and thirty instants in each slot the pending jobs. A job counts as pending from its submission, or the
    end of an attempt, to its next start, unless it is held now. Slots are ten minutes long, and longer for many cards
    or a long time; of each, the samples of the first ten minutes are read. A slot without a sample of a card is
    unknown."""
    return Answer(await svc.slow.run(lambda: _efficiency(service, hours)))


def _efficiency(service: EfficiencyService, hours: int) -> Plain:
    found = service.over(hours)
    return {
        "since_s": found.since_us / US_PER_S,
        "until_s": found.until_us / US_PER_S,
        "slot_s": found.slot_us / US_PER_S,
        "total": asdict(found.total),
        "nodes": [{"node": node, "hours": asdict(hours)} for node, hours in found.nodes.items()],
        "truncated": found.truncated,
    }
