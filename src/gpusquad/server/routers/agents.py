"""Agents of a cluster's nodes: what they see of cards and runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from gpusquad.server.agent_auth import NODE, unauthenticated
from gpusquad.server.errors import NotFound
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import Svc
from gpusquad.server.schemas.agents import AgentSamples, ReportAnswer

SAMPLES = "/agents/samples"
router = APIRouter(tags=["agents"])


async def node_of(request: Request) -> str:
    """The node whose agent this is; the entrance has found it out."""
    node = request.scope.get(NODE)
    if not node:
        raise unauthenticated("no token of an agent was sent")
    return node


@router.post(SAMPLES, response_model=ReportAnswer)
def report_samples(body: AgentSamples, node: Annotated[str, Depends(node_of)], svc: Svc) -> Answer:
    """How the cards of the caller's node are, and the runs on them. The answer says how to divide the cards."""
    if svc.agents is None:
        raise NotFound("agents do not report here")
    cards = svc.agents.reports.take(node, body.model_dump())
    return Answer({"ok": True, "divide": {card: svc.divides.policy_of(card) for card in cards}})
