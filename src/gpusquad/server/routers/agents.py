"""Reports of node agents on cards and runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from gpusquad.model.virtual import physical
from gpusquad.server.agent_auth import NODE, unauthenticated
from gpusquad.server.errors import NotFound
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import Svc
from gpusquad.server.schemas.agents import AgentSamples, ReportAnswer

SAMPLES = "/agents/samples"
router = APIRouter(tags=["agents"])


async def node_of(request: Request) -> str:
    """The agent's node, found by the middleware."""
    node = request.scope.get(NODE)
    if not node:
        raise unauthenticated("no agent token was sent")
    return node


@router.post(SAMPLES, response_model=ReportAnswer)
def report_samples(body: AgentSamples, node: Annotated[str, Depends(node_of)], svc: Svc) -> Answer:
    """Report the cards of the caller's node and the runs on them. The answer gives their divide policies, and names the
    cards to test."""
    if svc.agents is None:
        raise NotFound("this service has no agents")
    cards = svc.agents.reports.take(node, body.model_dump())
    known = {physical(card) for card in cards}
    tests = [card for card in svc.scheduler.suspects.wanted() if card in known]
    return Answer({"ok": True, "divide": {card: svc.divides.policy_of(card) for card in cards}, "tests": tests})
