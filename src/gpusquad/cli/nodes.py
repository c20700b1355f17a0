"""``gpusquad nodes``: lists nodes and their cards."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpusquad.cli._service import AsJson, connect, print_json


def nodes(
    with_cards: Annotated[
        bool, typer.Option("--cards", "-c", help="Show one row per card instead of one per node.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List nodes with their free resources, or the cards (GPUs) of all nodes."""
    client = connect()
    found: Any = client.cluster.nodes()
    if as_json:
        print_json({"items": found})
        return
    from gpusquad.cli._tables import console
    from gpusquad.cli._views.node import cards_table, nodes_table

    out = console()
    if with_cards:
        out.print(cards_table(found, out.width))
    else:
        out.print(nodes_table(found, client.now_s(), out.width))
