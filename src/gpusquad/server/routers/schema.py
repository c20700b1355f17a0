"""JSON Schema of the job file, for editors: needs no token."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from gpusquad.server.json_answer import Answer

router = APIRouter(tags=["schema"])


@router.get("/schema/job", response_model=dict[str, Any])
def get_job_schema() -> Answer:
    """Show the JSON Schema of a job file."""
    from gpusquad.spec.schema import json_schema

    return Answer(json_schema())
