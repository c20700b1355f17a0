"""``gpusquad inbox``: notices about the caller's jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusquad.cli._service import AsJson, connect, print_json

if TYPE_CHECKING:
    from gpusquad.client.client import Client


def inbox(
    unread: Annotated[bool, typer.Option("--unread", "-u", help="Show only unread notices.")] = False,
    every: Annotated[bool, typer.Option("--all", "-a", help="Show all notices that are kept.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, metavar="N", help="Show at most N notices.")
    ] = 20,
    read: Annotated[bool, typer.Option("--read", "-r", help="Mark the shown notices as read.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new notices as they come, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List notices about your jobs, newest first: finished, failed, held, hanging, late. A dot marks unread ones."""
    client = connect()
    found: Any = client.inbox.entries(unread=unread, limit=None if every else limit)
    shown = found["items"]
    if as_json and follow:
        for entry in reversed(shown):
            typer.echo(json.dumps(entry))
    elif as_json:
        print_json(found)
    else:
        from gpusquad.cli._tables import console
        from gpusquad.cli._views.inbox import inbox_view

        out = console()
        out.print(inbox_view(found, client.now_s(), out.width, unread))
    new = [entry["id"] for entry in shown if not entry["read"]]
    if read and new:
        client.inbox.read((), shown[0]["id"]) if every else client.inbox.read(new)
    if follow:
        _follow(client, max((entry["id"] for entry in shown), default=0), as_json)


def _follow(client: Client, after: int, as_json: bool) -> None:
    from gpusquad.cli._views.inbox import inbox_line

    for entry in client.inbox.follow(after):
        typer.echo(json.dumps(entry) if as_json else inbox_line(entry))
