"""``gpusquad history``: lists past jobs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpusquad.cli import _complete
from gpusquad.cli._service import AsJson, connect, print_json


def history(
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Show jobs submitted since this time, for example 7d or 2026-03-01.")
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Show jobs submitted until this time.")] = "",
    user: Annotated[str, typer.Option("--user", "-u", metavar="NAME", help="Show only jobs of this user.")] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Show only your own jobs.")] = False,
    tenant: Annotated[
        str, typer.Option(metavar="NAME", help="Show only jobs of this tenant.", autocompletion=_complete.tenants)
    ] = "",
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            "-s",
            metavar="STATE",
            help="Show only jobs in this state. Can be repeated.",
            autocompletion=_complete.states,
        ),
    ] = None,
    text: Annotated[str, typer.Option(metavar="TEXT", help="Show only jobs whose name contains this text.")] = "",
    group: Annotated[str, typer.Option(metavar="GROUP", help="Show only jobs of this group.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="Show at most N jobs.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List jobs of any state, newest first, with wait time, run time and outcome."""
    from gpusquad.cli._jobs import check_states
    from gpusquad.cli._times import read_time

    states = [part for text in state or () for part in text.split(",")]
    check_states(states)
    client = connect()
    now_s = client.now_s()
    found: Any = client.jobs.find(
        since_s=read_time(since, "since", now_s) if since else None,
        until_s=read_time(until, "until", now_s) if until else None,
        user=client.people.me()["user"] if mine else user or None,
        tenant=tenant or None,
        state=states,
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
