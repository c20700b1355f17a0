"""``gpusquad predictions``: accuracy of predicted run times and of promised starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gpusquad.cli._service import AsJson, connect, note, print_json

POINTS = 3000
"""Maximum number of runs in the plots."""


def predictions(
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Show only runs of this tenant.")] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Show runs since this time, for example 7d or 2026-03-01.")
    ] = "30d",
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write plots to this HTML file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the accuracy of predicted run times, by tenant and by source of the prediction, the accuracy of start
    forecasts by tenant, and which promised starts were kept, late, by how much and why."""
    from gpusquad.cli._times import read_time

    client = connect()
    since_s = read_time(since, "since", client.now_s())
    answer: Any = client.cluster.predictions(tenant, since_s, POINTS if html else 0)
    if html is not None:
        from gpusquad.cli._predictions_page import write_page

        write_page(answer, html, tenant)
    if as_json:
        print_json(answer)
        return
    from gpusquad.cli._tables import console
    from gpusquad.cli._views.predictions import predictions_view
    from gpusquad.cli._views.starts import starts_view

    out = console()
    out.print(predictions_view(answer, out.width))
    if answer.get("waits"):
        from gpusquad.cli._views.waits import waits_view

        out.print()
        out.print(waits_view(answer["waits"], out.width))
    if answer.get("starts"):
        out.print()
        out.print(starts_view(answer["starts"], out.width))
    if html is not None:
        note(f"Wrote {html}")
