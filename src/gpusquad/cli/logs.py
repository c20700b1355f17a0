"""``gpusquad logs``: prints the output of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusquad.cli._service import JobArgument, connect, note

if TYPE_CHECKING:
    from gpusquad.client.client import Client

ALL = "all"


def logs(
    job: JobArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new output until the job ends.")] = False,
    task: Annotated[
        str,
        typer.Option("--task", "-t", metavar="N|all", help="Print the output of one task, numbered from 0, or of all."),
    ] = ALL,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, metavar="N", help="Print only the last N lines.")
    ] = None,
    attempt: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Attempt, numbered from 0. Default: the latest.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the output unchanged, including escape sequences.")] = False,
) -> None:
    """Print the output of a job, while it runs and afterwards."""
    from gpusquad.cli._jobs import words
    from gpusquad.model.errors import Invalid

    if task != ALL and not task.isdigit():
        raise Invalid("task", f"{task!r} is not a task number", "write a number from 0, or all")
    if follow and attempt is not None:
        raise Invalid("attempt", "cannot be combined with --follow", "leave out one of them")
    client = connect()
    which = task if task == ALL else int(task)
    if not follow:
        _read(client, job, which, attempt, tail, raw)
        return
    from gpusquad.cli._wait_jobs import follow_logs

    state = follow_logs(client, job, which, tail, raw)
    note(f"The job ended: {words(state)}")


def _read(client: Client, job: str, task: int | str, attempt: int | None, tail: int | None, raw: bool) -> None:
    from gpusquad.cli._log_lines import LogPrinter

    view: Any = {"id": job, "tasks": 1, "placement": []} if task != ALL else client.jobs.get(job)
    printer = LogPrinter.for_job(view, task, raw)
    for one in range(view["tasks"]) if task == ALL else [int(task)]:
        for chunk in client.logs.read_all(job, one, attempt=attempt, tail=tail):
            printer.show(chunk)
        printer.finish()
