"""Interference between jobs on one card."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from gpusquad.model.units import WHOLE_MILLI
from gpusquad.server.answers import Who
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import Svc
from gpusquad.server.permissions import Reader, may_see
from gpusquad.server.routers.app_state import kept
from gpusquad.server.routers.jobs import SeenJob
from gpusquad.server.schemas.interference import InterferenceView, NeighboursView
from gpusquad.server.services.sharing.card_neighbours import CardNeighbours, Neighbour, neighbours_of, step_rate
from gpusquad.server.services.sharing.interference import InterferenceService
from gpusquad.server.services.sharing.interference_learning import InterferenceModel
from gpusquad.server.views import Plain
from gpusquad.server.wiring import Services
from gpusquad.store.jobs import JobRow

router = APIRouter(tags=["interference"])


async def interference_service(request: Request) -> InterferenceService:
    svc: Services = request.app.state.services
    service = svc.scheduler.context
    return kept(
        request.app.state, "interference", lambda: InterferenceService(None if service is None else service.lock)
    )


@router.get("/interference", response_model=InterferenceView)
async def get_interference(
    who: Reader, svc: Svc, service: Annotated[InterferenceService, Depends(interference_service)]
) -> Answer:
    """Show known interference: workloads alone, all pairs with the source of each value, and the model's error.
    Workloads that were only learned have names chosen by tenants, so they are for administrators."""
    return Answer(await svc.slow.run(lambda: service.tables(_model(svc), who.is_admin)))


@router.get("/jobs/{job}/neighbours", response_model=NeighboursView)
def job_neighbours(row: SeenJob, who: Reader, svc: Svc) -> Answer:
    """List the neighbours of a job on its cards, with the predicted and observed slowdown. Jobs of other tenants are
    not named."""
    return Answer(_neighbours(row, who, svc))


def _neighbours(row: JobRow, who: Who, svc: Services) -> Plain:
    cards = neighbours_of(row, svc.scheduler.node_service.cards(), svc.scheduler.context, _model(svc))
    rates = [one.rate for one in cards]
    expected = min((rate for rate in rates if rate is not None), default=None) if None not in rates else None
    seen = step_rate(row, svc.scheduler.neighbours)
    return {
        "job": row.id,
        "cards": [_card(one, who) for one in cards],
        "expected_ratio": expected,
        "expected_slowdown": _slowdown(expected),
        "observed_ratio": seen.ratio,
        "observed_slowdown": _slowdown(seen.ratio),
        "steps_per_s": seen.now,
        "alone_steps_per_s": seen.alone,
    }


def _model(svc: Services) -> InterferenceModel | None:
    neighbours = svc.scheduler.neighbours
    return None if neighbours is None else neighbours.model


def _card(one: CardNeighbours, who: Who) -> Plain:
    return {
        "card": one.card.id,
        "node": one.card.node,
        "gpu": one.card.model,
        "neighbours": [_neighbour(beside, who) for beside in one.neighbours],
        "speed_ratio": one.rate,
    }


def _neighbour(beside: Neighbour, who: Who) -> Plain:
    user, estimate = beside.user, beside.estimate
    seen = may_see(who, user)
    return {
        "job": user.job_id if seen else None,
        "name": user.name if seen else None,
        "user": user.user if seen else None,
        "app": beside.app if seen else None,
        "sm_ratio": None if user.sm_milli is None else user.sm_milli / WHOLE_MILLI,
        "memory_bytes": user.memory_bytes,
        "speed_ratio": None if estimate is None else estimate.rate,
        "basis": None if estimate is None else estimate.source,
    }


def _slowdown(ratio: float | None) -> float | None:
    return 1.0 / ratio if ratio else None
