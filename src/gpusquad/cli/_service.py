"""What verbs that speak to a service share. Nothing here imports more than the answer needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusquad.cli import _complete

if TYPE_CHECKING:
    from gpusquad.client.client import Client

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as the API answers.")]
JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help="An id, its start or end, or a name.", autocompletion=_complete.jobs, show_default=False
    ),
]
JobsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="JOB…", help="Ids, their starts or ends, or names.", autocompletion=_complete.jobs, show_default=False
    ),
]
Cause = Annotated[str, typer.Option(metavar="TEXT", help="Why; kept in the record.")]


def connect() -> Client:
    """The service that is meant here."""
    from gpusquad.client.connect import find

    return find()


def print_json(data: Any) -> None:
    import json

    typer.echo(json.dumps(data, indent=2))


def note(text: str) -> None:
    """For the person at the terminal; a pipe that reads stdout does not get it."""
    from gpusquad.cli._sanitize import one_line

    typer.echo(one_line(text), err=True)


def counted(number: int, noun: str) -> str:
    """``1 job``, ``2 jobs``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
