"""Errors of all verbs: one line on stderr and an exit code."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from gpusquad.cli import _exit
from gpusquad.cli._sanitize import one_line
from gpusquad.client.errors import ApiError
from gpusquad.model.errors import Invalid

TOKEN_HINT = "set GPUSQUAD_TOKEN; an administrator can create a token with gpusquad token create"


class VerbGroup(TyperGroup):
    """A group of verbs that reports their errors."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ApiError as error:
            print_error(f"{error.message} ({TOKEN_HINT})" if error.status == 401 else str(error))
            code = _exit.of_error(error)
        except Invalid as error:
            print_error(str(error))
            code = _exit.BAD_INPUT
        except KeyboardInterrupt:
            code = _exit.INTERRUPTED
        except BrokenPipeError:
            raise
        except OSError as error:
            print_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
            code = _exit.BAD_INPUT
        raise typer.Exit(code)


def print_error(problem: str) -> None:
    """Print an error as one line, even if it quotes text with line breaks."""
    typer.echo("error: " + one_line(problem), err=True)
