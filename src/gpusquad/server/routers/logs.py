"""Logs of tasks."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from gpusquad.model.errors import Invalid
from gpusquad.model.units import show_count
from gpusquad.server.errors import NotFound, Unavailable
from gpusquad.server.json_answer import Answer
from gpusquad.server.keepalive import stream
from gpusquad.server.log_follow import LogFollower, read_part
from gpusquad.server.log_position import MAX_FOLLOWED, LogPosition
from gpusquad.server.log_text import LONGEST_CHARACTER
from gpusquad.server.params import Svc
from gpusquad.server.routers.jobs import LoggedJob
from gpusquad.server.schemas.jobs import LogPart
from gpusquad.server.views import tasks_of
from gpusquad.server.wiring import LogReader, Services
from gpusquad.store.jobs import FINAL_STATES, JobRow

router = APIRouter(prefix="/jobs/{job}/logs", tags=["logs"])

MAX_BYTES = 1 << 20
USUAL_BYTES = 1 << 18
MAX_LINES = 100_000
Whole = Annotated[int | None, Query(ge=0, le=2**53)]
Lines = Annotated[int | None, Query(ge=0, le=MAX_LINES, description="Start with this many last lines")]
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events log and end"}
}


@router.get("", response_model=LogPart)
def read_logs(
    row: LoggedJob,
    svc: Svc,
    task: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    attempt: Annotated[int | None, Query(ge=0, le=10_000_000)] = None,
    offset: Whole = None,
    tail: Lines = None,
    limit: Annotated[int, Query(ge=1, le=MAX_BYTES, description="Bytes")] = USUAL_BYTES,
) -> Answer:
    """Read a part of a task's log: from an offset in bytes, or its last lines. Of the latest attempt unless given."""
    if offset is not None and tail is not None:
        raise Invalid("tail", "excludes offset", "give one of them")
    try:
        return _part(row, svc, task, attempt, offset, tail, limit)
    except ConnectionError as error:  # remote logs
        raise Unavailable(str(error)) from None


@router.get("/stream", response_class=Response, responses=_STREAM)
async def stream_logs(
    request: Request,
    row: LoggedJob,
    svc: Svc,
    task: Annotated[str, Query(pattern=r"^(all|[0-9]{1,7})$")] = "all",
    tail: Lines = None,
    last_event_id: Annotated[str | None, Header(max_length=8192, description="Continue after this event")] = None,
) -> Response:
    """Stream a job's log as it is written, over all attempts, up to its end."""
    if task == "all" and (tasks := tasks_of(row)) > MAX_FOLLOWED:
        raise Invalid(
            "task", f"is required: the job has {tasks} tasks, too many to follow at once", "for example task=0"
        )
    place = LogPosition.parse(last_event_id) if last_event_id else LogPosition(0 if tail is None else row.attempt)
    follower = LogFollower(svc, row.id, None if task == "all" else int(task), place, None if last_event_id else tail)
    return stream(request, svc, follower.events)


def _part(
    row: JobRow, svc: Services, task: int, attempt: int | None, offset: int | None, tail: int | None, limit: int
) -> Answer:
    attempt, reader = _attempt(row, attempt, svc)
    is_over = row.state in FINAL_STATES or row.attempt > attempt
    if reader is None or task not in reader.tasks():
        part = {"task": task, "offset": 0, "next": 0, "text": ""}
        return Answer(part | {"attempt": attempt, "end": is_over})
    start = offset or 0 if tail is None else reader.tail(task, tail)
    part = read_part(reader, task, start, max(limit, LONGEST_CHARACTER), is_over)
    return Answer(part | {"attempt": attempt, "end": is_over and part["next"] >= reader.size(task)[1]})


def _attempt(row: JobRow, asked: int | None, svc: Services) -> tuple[int, LogReader | None]:
    if asked is not None:
        if asked > row.attempt:
            attempts = show_count(row.attempt + 1, "attempt")
            raise NotFound(f"job {row.id} has had {attempts}", field="attempt", cure="count from 0")
        return asked, svc.logs.reader(row.id, asked)
    reader = svc.logs.reader(row.id, row.attempt)
    if reader is None and row.attempt > 0:  # it waits for its next attempt, so the last one is read
        return row.attempt - 1, svc.logs.reader(row.id, row.attempt - 1)
    return row.attempt, reader
