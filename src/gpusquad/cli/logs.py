"""``gpusquad logs``: what a job writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusquad.cli._service import JobArgument, connect, note

if TYPE_CHECKING:
    from gpusquad.client.client import Client

ALL = "all"


def logs(
    job: JobArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job is over.")] = False,
    task: Annotated[str, typer.Option("--task", "-t", metavar="N|all", help="One task, or all of them.")] = ALL,
    tail: Annotated[int | None, typer.Option("--tail", "-n", min=0, metavar="N", help="Only the last N lines.")] = None,
    attempt: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Which attempt, from 0; else the latest.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="As it was written, with escape sequences.")] = False,
) -> None:
    """Show what a job writes, while it runs and after."""
    from gpusquad.cli._jobs import words
    from gpusquad.model.errors import Invalid

    if task != ALL and not task.isdigit():
        raise Invalid("task", f"{task!r} is not a number", "count from 0, or write all")
    if follow and attempt is not None:
        raise Invalid("attempt", "goes with what is written already", "leave out --follow")
    client = connect()
    which = task if task == ALL else int(task)
    if not follow:
        _read(client, job, which, attempt, tail, raw)
        return
    from gpusquad.cli._wait_jobs import follow_logs

    state = follow_logs(client, job, which, tail, raw)
    note(f"the job is over: {words(state)}")


def _read(client: Client, job: str, task: int | str, attempt: int | None, tail: int | None, raw: bool) -> None:
    from gpusquad.cli._log_lines import LogPrinter

    view: Any = {"id": job, "tasks": 1, "placement": []} if task != ALL else client.jobs.get(job)
    printer = LogPrinter.for_job(view, task, raw)
    for one in range(view["tasks"]) if task == ALL else [int(task)]:
        for chunk in client.logs.read_all(job, one, attempt=attempt, tail=tail):
            printer.show(chunk)
        printer.finish()
