"""Bad input is one line on stderr and exit code 2, for every verb."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from gpusquad.model.errors import Invalid

BAD_INPUT = 2


class Group(TyperGroup):
    """Verbs, and what becomes of their errors."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Invalid as error:
            _say(str(error))
        except BrokenPipeError:
            raise
        except OSError as error:
            _say(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        raise typer.Exit(BAD_INPUT)


def _say(problem: str) -> None:
    """One line, whatever was quoted in it."""
    typer.echo("error: " + " ".join(problem.split()), err=True)
