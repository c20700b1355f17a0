"""State of the SLO of one job: whether it is met, missed or unknown."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from gpusquad.server.routers.app_state import kept
from gpusquad.server.services.sharing.slo import SloService, goal_of
from gpusquad.server.views import Plain
from gpusquad.server.wiring import Services
from gpusquad.store.jobs import JobRow


async def slo_service(request: Request) -> SloService:
    svc: Services = request.app.state.services
    return kept(request.app.state, "goals", lambda: SloService(svc.divides, svc.clock.now_us))


Slos = Annotated[SloService, Depends(slo_service)]


def slo_state(row: JobRow, service: SloService, services: Services) -> Plain:
    """Empty: the job has no SLO."""
    goal = goal_of(row)
    if goal is None:
        return {}
    attainment = service.report(goal, services.scheduler.node_service.cards()).attainment
    return {
        "deadline_met": goal.is_met(services.clock.now_us()),
        "attainment_ratio": attainment,
        "unknown": goal.is_unknown(attainment),
    }
