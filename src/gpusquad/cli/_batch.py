"""Runs an action for several names. A failure does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import typer

from gpusquad.cli import _exit
from gpusquad.cli._errors import print_error
from gpusquad.cli._service import print_json
from gpusquad.client.errors import ApiError, ServiceUnreachable


def for_each(
    names: Iterable[str], act: Callable[[str], Any], describe: Callable[[str, Any], str], as_json: bool
) -> None:
    """Run ``act`` for each name and print ``describe(name, answer)``. The exit code is that of the last failure."""
    done, code = [], _exit.OK
    for name in names:
        try:
            answer = act(name)
        except ServiceUnreachable:
            raise
        except ApiError as error:
            print_error(f"{name}: {error}")
            code = _exit.of_error(error)
            continue
        done.append(answer)
        if not as_json:
            typer.echo(describe(name, answer))
    if as_json:
        print_json({"items": done})
    if code:
        raise typer.Exit(code)
