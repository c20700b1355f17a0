"""Prints choices and warnings of the service on stderr, so that stdout holds only the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer


def show_notes(answer: Mapping[str, Any]) -> None:
    from gpusquad.cli._sanitize import one_line

    for text in answer.get("chosen", ()):
        typer.echo(f"chosen: {one_line(text)}", err=True)
    for text in answer.get("warnings", ()):
        typer.secho(f"warning: {one_line(text)}", err=True, fg="yellow")
