"""``gpusquad usage``: GPU hours by tenant, user or job."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from gpusquad.cli._service import AsJson, connect, print_json


def usage(
    by: Annotated[Literal["tenant", "user", "job"], typer.Option(help="Group by tenant, user or job.")] = "tenant",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Start of the period, for example 7d or 2026-03-01.")
    ] = "7d",
    until: Annotated[str, typer.Option(metavar="TIME", help="End of the period.")] = "now",
    as_json: AsJson = False,
) -> None:
    """Show the GPU hours used in a period, by tenant, user or job."""
    from gpusquad.cli._times import read_time

    client = connect()
    now_s = client.now_s()
    since_s, until_s = read_time(since, "since", now_s), read_time(until, "until", now_s)
    rows: Any = client.cluster.usage(by, since_s, None if until == "now" else until_s)
    if as_json:
        print_json({"items": rows})
        return
    from gpusquad.cli._tables import console
    from gpusquad.cli._views.usage import usage_view

    out = console()
    out.print(usage_view(rows, by, since_s, until_s, out.width))
