"""``gpusquad uncordon``: puts cards back into use."""

from __future__ import annotations

from typing import Annotated

import typer

from gpusquad.cli import _complete
from gpusquad.cli._service import AsJson, connect


def uncordon(
    card: Annotated[
        list[str], typer.Argument(metavar="CARD…", help="Card IDs.", autocompletion=_complete.cards, show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Allow new jobs on cordoned cards again."""
    from gpusquad.cli._batch import for_each
    from gpusquad.cli._sanitize import one_line

    client = connect()
    for_each(card, client.cluster.uncordon, lambda name, _: f"{one_line(name)}: uncordoned", as_json)
