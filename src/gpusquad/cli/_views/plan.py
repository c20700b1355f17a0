"""Plan of newly submitted jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from gpusquad.cli._answers import plan_facts, starts
from gpusquad.cli._jobs import STYLES, forecast_text, label, words
from gpusquad.cli._sanitize import one_line
from gpusquad.cli._service import counted
from gpusquad.cli._tables import console, facts
from gpusquad.cli._views.resources import request_text
from gpusquad.client.errors import ApiError

if TYPE_CHECKING:
    from gpusquad.client.client import Client

Plain = Mapping[str, Any]
MAX_LOOKED_UP = 1000
"""Maximum number of queue positions looked up for a large sweep."""


def show_plan(client: Client, accepted: Plain) -> None:
    """Print the plan of one job, or a summary of a sweep. Failing queries do not affect the submission."""
    out = console()
    jobs = accepted["jobs"]
    if len(jobs) == 1:
        out.print(_heading(jobs[0]))
        out.print(facts(_one(client, jobs[0])))
    else:
        group = f" as group {one_line(accepted['group'])}" if accepted.get("group") else ""
        out.print(Text(f"Submitted {counted(len(jobs), 'job')}{group}", style="bold"))
        out.print(facts(_many(client, jobs)))


def _heading(job: Plain) -> Text:
    tasks = f", {counted(job['tasks'], 'task')}" if job["tasks"] > 1 else ""
    return Text.assemble("Submitted ", (label(job), "bold"), f": {one_line(request_text(job))}{tasks}")


def _one(client: Client, job: Plain) -> list[tuple[str, Any]]:
    try:
        answer: Any = client.jobs.when(job["id"])
        now: Any = client.jobs.get(job["id"])
    except ApiError as error:
        return [("plan", f"unknown: {error.message}")]
    state = (now["state"], STYLES.get(now["state"], ""))
    rows: list[tuple[str, Any]] = [("state", Text.assemble((words(state[0]), state[1]), _line(answer)))]
    return [*rows, *plan_facts(answer, now, client.now_s())]


def _line(answer: Plain) -> str:
    position = answer.get("position")
    return "" if position is None else f", position {position:,} in the queue"


def _many(client: Client, jobs: Sequence[Plain]) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = [("each", one_line(request_text(jobs[0])))]
    ids = {job["id"] for job in jobs}
    try:
        queue: Any = client.cluster.queue(MAX_LOOKED_UP)
        waiting = [job for job in queue["items"] if job["id"] in ids]
        last: Any = client.jobs.when(waiting[-1]["id"]) if waiting else {}
    except ApiError as error:
        return [*rows, ("plan", f"unknown: {error.message}")]
    running = [job for job in queue["running"] if job["id"] in ids]
    held = sum(job["state"] == "held" for job in jobs)
    now_s = client.now_s()
    return [
        *rows,
        ("running", f"{len(running)}, {forecast_text(running[0], now_s)}".removesuffix(", ") if running else ""),
        ("pending", f"{len(waiting):,}, from position {waiting[0]['position']:,} in the queue" if waiting else ""),
        ("held", str(held) if held else ""),
        ("last start", starts(last, now_s) if waiting else ""),
    ]
