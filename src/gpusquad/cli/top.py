"""``gpusquad top``: live view of cards and jobs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusquad.cli._service import AsJson, connect, print_json

if TYPE_CHECKING:
    from gpusquad.client.client import Client

MAX_WAITING = 200


def top(
    once: Annotated[bool, typer.Option("--once", help="Print the tables once and exit.")] = False,
    every: Annotated[int, typer.Option(min=1, metavar="SECONDS", help="Refresh interval in seconds.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Show cards and jobs live. Keys: w explains why a job waits, c cancels it, q quits."""
    client = connect()
    if as_json:
        print_json(overview(client))
    elif once or not sys.stdout.isatty():
        _print(client)
    else:
        _live(client, float(every))


def overview(client: Client) -> dict[str, Any]:
    """Data of the view."""
    return {
        "cluster": client.cluster.summary(),
        "nodes": client.cluster.nodes(),
        "queue": client.cluster.queue(MAX_WAITING),
    }


def _print(client: Client) -> None:
    from gpusquad.cli._tables import console
    from gpusquad.cli._views.top import top_view

    out = console()
    out.print(top_view(overview(client), client.now_s(), out.width))


def _live(client: Client, interval_s: float) -> None:
    try:
        from gpusquad.cli._top_live import Top
    except ModuleNotFoundError:  # Textual is installed with the service, not with the client alone
        from gpusquad.cli._views.top import top_view
        from gpusquad.cli._watch import watch_screen

        watch_screen(client, lambda: overview(client), top_view, interval_s)
        return
    Top(connect, interval_s).run()
