"""Options and helpers of verbs that call the service. Imports are lazy, to keep short verbs fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusquad.cli import _complete

if TYPE_CHECKING:
    from gpusquad.client.client import Client

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer of the service as JSON.")]
JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="Job ID, six or more characters from its start or end, or job name.",
        autocompletion=_complete.jobs,
        show_default=False,
    ),
]
JobsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="JOB…",
        help="Job IDs, six or more characters from their start or end, or job names.",
        autocompletion=_complete.jobs,
        show_default=False,
    ),
]
Cause = Annotated[str, typer.Option(metavar="TEXT", help="Reason for this action, recorded with it.")]


def connect() -> Client:
    """A client of the service that the environment selects."""
    from gpusquad.client.connect import find

    return find()


def print_json(data: Any) -> None:
    import json

    typer.echo(json.dumps(data, indent=2))


def note(text: str) -> None:
    """Print to stderr, so that pipes which read stdout do not get it."""
    from gpusquad.cli._sanitize import one_line

    typer.echo(one_line(text), err=True)


def counted(number: int, noun: str) -> str:
    """``1 job``, ``2 jobs``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
