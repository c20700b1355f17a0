"""The same action on several things: one that fails does not keep the others from being done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import typer

from gpusquad.cli import _exit
from gpusquad.cli._errors import say
from gpusquad.cli._service import print_json
from gpusquad.client.errors import ApiError, ServiceUnreachable


def for_each(names: Iterable[str], act: Callable[[str], Any], tell: Callable[[str, Any], str], as_json: bool) -> None:
    """``tell`` makes a line of a name and the answer. The exit code is that of the last failure."""
    done, code = [], _exit.OK
    for name in names:
        try:
            answer = act(name)
        except ServiceUnreachable:
            raise
        except ApiError as error:
            say(f"{name}: {error}")
            code = _exit.of_error(error)
            continue
        done.append(answer)
        if not as_json:
            typer.echo(tell(name, answer))
    if as_json:
        print_json({"items": done})
    if code:
        raise typer.Exit(code)
