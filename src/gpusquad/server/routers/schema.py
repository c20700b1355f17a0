"""The job file as JSON Schema, for editors: needs no token."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from gpusquad.server.json_answer import Answer

router = APIRouter(tags=["schema"])


@router.get("/schema/job", response_model=dict[str, Any])
def get_job_schema() -> Answer:
    """What a job file may hold."""
    from gpusquad.spec.schema import json_schema

    return Answer(json_schema())
