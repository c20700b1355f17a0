"""``gpusquad cordon``: takes cards out of use."""

from __future__ import annotations

from typing import Annotated

import typer

from gpusquad.cli import _complete
from gpusquad.cli._service import AsJson, Cause, connect


def cordon(
    card: Annotated[
        list[str], typer.Argument(metavar="CARD…", help="Card IDs.", autocompletion=_complete.cards, show_default=False)
    ],
    cause: Cause = "",
    as_json: AsJson = False,
) -> None:
    """Start no new jobs on cards. Running jobs finish."""
    from gpusquad.cli._batch import for_each
    from gpusquad.cli._sanitize import one_line

    client = connect()
    for_each(
        card, lambda name: client.cluster.cordon(name, cause), lambda name, _: f"{one_line(name)}: cordoned", as_json
    )
