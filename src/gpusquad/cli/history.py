"""``gpusquad history``: past jobs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpusquad.cli import _complete
from gpusquad.cli._service import AsJson, connect, print_json


def history(
    since: Annotated[str, typer.Option(metavar="TIME", help="Submitted since: 7d, or 2026-03-01.")] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Submitted until.")] = "",
    user: Annotated[str, typer.Option("--user", "-u", metavar="NAME", help="Only this user's.")] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Only mine.")] = False,
    tenant: Annotated[
        str, typer.Option(metavar="NAME", help="Only this tenant's.", autocompletion=_complete.tenants)
    ] = "",
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", metavar="STATE", help="Only in this state; may be repeated.",
                     autocompletion=_complete.states),
    ] = None,
    text: Annotated[str, typer.Option(metavar="TEXT", help="Only with this in its name.")] = "",
    group: Annotated[str, typer.Option(metavar="GROUP", help="Only of this group.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="At most so many.")] = 50,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """List jobs of any state, newest first: how long they waited and ran, and how they ended."""
    from gpusquad.cli._times import read_time

    client = connect()
    now_s = client.now_s()
    found: Any = client.jobs.find(
        since_s=read_time(since, "since", now_s) if since else None,
        until_s=read_time(until, "until", now_s) if until else None,
        user=client.people.me()["user"] if mine else user or None,
        tenant=tenant or None,
        state=state,
        text=text or None,
        group=group or None,
        limit=limit,
    )
    if as_json:
        print_json(found)
        return
    from gpusquad.cli._tables import console
    from gpusquad.cli._views.history import history_view

    out = console()
    out.print(history_view(found, client.now_s(), out.width))
