"""Repeats a query until interrupted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from gpusquad.cli._sanitize import one_line
from gpusquad.cli._tables import console
from gpusquad.cli._times import stamp
from gpusquad.client.errors import ApiError
from gpusquad.model.errors import Invalid

if TYPE_CHECKING:
    from gpusquad.client.client import Client

Ask = Callable[[], Any]
Show = Callable[[Any, float, int], RenderableType]


def watch_json(ask: Ask, interval_s: float) -> None:
    """Print one line of JSON per query."""
    while True:
        typer.echo(json.dumps(ask()))
        time.sleep(interval_s)


def watch_screen(client: Client, ask: Ask, show: Show, interval_s: float) -> None:
    """Redraw the whole screen after each query. Temporary errors are shown and the query is repeated."""
    out = console()
    if not out.is_terminal:
        raise Invalid("watch", "needs a terminal", "use --json for one line per update")
    with Live(console=out, screen=True, auto_refresh=False) as live:
        while True:
            try:
                shown = show(ask(), client.now_s(), out.width)
            except ApiError as error:
                if not error.may_pass:
                    raise
                shown = Text(one_line(error), style="red")
            heading = Text(f"{stamp(client.now_s())} · every {interval_s:g} s · Ctrl-C exits\n", style="dim")
            live.update(Group(heading, shown), refresh=True)
            time.sleep(interval_s)
