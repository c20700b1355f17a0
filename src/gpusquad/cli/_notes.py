"""What the service chose for a job, and what it warns of: beside the answer, so that scripts can read that alone."""

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
