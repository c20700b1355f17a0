"""Nodes, cards and their maintenance."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S
from gpusquad.server.errors import NotFound
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import CardId, NodeId, RowId, Svc, TimeS, to_us
from gpusquad.server.permissions import Admin, Reader
from gpusquad.server.schemas.base import Done
from gpusquad.server.schemas.cluster import ClusterView, NodePage, SamplePage, WindowPage, WindowRequest, WindowView
from gpusquad.server.schemas.jobs import CauseRequest
from gpusquad.server.views import node_view, page, sample_view, window_view
from gpusquad.store import samples

router = APIRouter(tags=["cluster"])

_HOUR_US = 3600 * US_PER_S
_DONE = {"ok": True}


@router.get("/cluster", response_model=ClusterView)
def get_cluster(_: Reader, svc: Svc) -> Answer:
    """Summarise all nodes."""
    cluster = svc.scheduler.node_service.cluster()
    return Answer(asdict(cluster) | {"usable": {str(size): count for size, count in cluster.usable.items()}})


@router.get("/nodes", response_model=NodePage)
def list_nodes(who: Reader, svc: Svc) -> Answer:
    """List nodes with their cards and jobs. Jobs of other tenants are not named."""
    return Answer(page([node_view(node, who) for node in svc.scheduler.node_service.nodes()]))


@router.post("/nodes/{node}/drain", response_model=Done)
def drain_node(node: NodeId, who: Admin, svc: Svc, body: CauseRequest | None = None) -> Answer:
    """Start no new jobs on this node. Running jobs finish."""
    cause = body.cause if body else ""
    svc.scheduler.node_service.drain(node, who, cause)
    svc.audit.record(who, "node.drain", node, {"cause": cause})
    return Answer(_DONE)


@router.post("/nodes/{node}/undrain", response_model=Done)
def undrain_node(node: NodeId, who: Admin, svc: Svc) -> Answer:
    """Use the node again."""
    svc.scheduler.node_service.undrain(node)
    svc.audit.record(who, "node.undrain", node)
    return Answer(_DONE)


# Ids of cards contain a slash ("node0/3"), written as it is or as %2F.
@router.post("/cards/{card:path}/cordon", response_model=Done)
def cordon_card(card: CardId, who: Admin, svc: Svc, body: CauseRequest | None = None) -> Answer:
    """Start no new jobs on this card. Running jobs finish."""
    cause = body.cause if body else ""
    svc.scheduler.node_service.cordon(card, who, cause)
    svc.audit.record(who, "card.cordon", card, {"cause": cause})
    return Answer(_DONE)


@router.post("/cards/{card:path}/uncordon", response_model=Done)
def uncordon_card(card: CardId, who: Admin, svc: Svc) -> Answer:
    """Use the card again."""
    svc.scheduler.node_service.uncordon(card)
    svc.audit.record(who, "card.uncordon", card)
    return Answer(_DONE)


@router.get("/cards/{card:path}/samples", response_model=SamplePage)
def list_samples(
    card: CardId,
    _: Reader,
    svc: Svc,
    since_s: TimeS = None,
    until_s: TimeS = None,
    every_s: Annotated[float, Query(ge=0, le=1e8, allow_inf_nan=False, description="Mean over such spans")] = 0.0,
) -> Answer:
    """Show the utilisation of a card, by default of the last hour."""
    if all(known.id != card for known in svc.scheduler.node_service.cards()):
        raise NotFound(f"there is no card {card!r}", field="card", cure="gpusquad nodes lists them")
    now_us = svc.clock.now_us()
    until_us = to_us(until_s) or now_us + 1
    since_us = to_us(since_s)
    with svc.database.read() as c:
        found = samples.of_card(c, card, until_us - _HOUR_US if since_us is None else since_us, until_us, every_s)
    return Answer(page([sample_view(row) for row in found]))


@router.get("/windows", response_model=WindowPage)
def list_windows(_: Reader, svc: Svc) -> Answer:
    """List maintenance windows."""
    return Answer(page([window_view(window) for window in svc.scheduler.node_service.windows()]))


@router.post("/windows", status_code=201, response_model=WindowView)
def add_window(body: WindowRequest, who: Admin, svc: Svc) -> Answer:
    """Add a maintenance window: no gang starts there that would run into it."""
    start_us, end_us = round(body.start_s * US_PER_S), to_us(body.end_s)
    if end_us is not None and end_us <= start_us:
        raise Invalid("end_s", "must be after start_s", "leave it out if the end is unknown")
    window = svc.scheduler.node_service.add_window(tuple(dict.fromkeys(body.nodes)), start_us, end_us, who, body.cause)
    svc.audit.record(who, "window.add", window.id, body.model_dump())
    return Answer(window_view(window), status_code=201)


@router.delete("/windows/{window}", status_code=204, response_class=Response)
def remove_window(window: RowId, who: Admin, svc: Svc) -> Response:
    """Remove a maintenance window."""
    svc.scheduler.node_service.remove_window(window)
    svc.audit.record(who, "window.remove", window)
    return Response(status_code=204)
