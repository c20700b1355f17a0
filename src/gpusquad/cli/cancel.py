"""``gpusquad cancel``: stops jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpusquad.cli import _complete
from gpusquad.cli._service import AsJson, Cause, connect

if TYPE_CHECKING:
    from gpusquad.client.client import Client


def cancel(
    job: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="JOB…",
            help="Job IDs, six or more characters from their start or end, or job names.",
            autocompletion=_complete.jobs,
            show_default=False,
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP", help="Cancel all unfinished jobs of a sweep. submit prints the group ID. Can be repeated."
        ),
    ] = None,
    cause: Cause = "",
    as_json: AsJson = False,
) -> None:
    """Stop running jobs and remove pending ones from the queue."""
    from gpusquad.cli._batch import for_each
    from gpusquad.cli._jobs import label, words
    from gpusquad.model.errors import Invalid

    if not job and not group:
        raise Invalid("job", "is missing", "name jobs, or a group with --group")
    client = connect()
    names = dict.fromkeys([*(job or ()), *(one for name in group or () for one in _of_group(client, name))])
    for_each(
        names,
        lambda name: client.jobs.cancel(name, cause),
        lambda _, answer: f"{label(answer)}: {words(answer['state'])}",
        as_json,
    )


def _of_group(client: Client, group: str) -> list[str]:
    from gpusquad.cli._jobs import FINAL, STATES
    from gpusquad.client.errors import ApiError

    unfinished = [state for state in STATES if state not in FINAL]
    found = client.jobs.find(group=group, state=unfinished, limit=None)["items"]
    if not found:
        raise ApiError(404, "not_found", f"group {group!r} has no unfinished jobs", "group")
    return [job["id"] for job in found]
