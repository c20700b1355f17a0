"""``gpusquad drain``: takes nodes out of use."""

from __future__ import annotations

from typing import Annotated

import typer

from gpusquad.cli import _complete
from gpusquad.cli._service import AsJson, Cause, connect


def drain(
    node: Annotated[
        list[str],
        typer.Argument(
            metavar="NODE…",
            help="Node names, as shown by gpusquad nodes.",
            autocompletion=_complete.nodes,
            show_default=False,
        ),
    ],
    cause: Cause = "",
    as_json: AsJson = False,
) -> None:
    """Start no new jobs on nodes. Running jobs finish: unlike kubectl drain, this stops none."""
    from gpusquad.cli._batch import for_each
    from gpusquad.cli._sanitize import one_line

    client = connect()
    for_each(
        node, lambda name: client.cluster.drain(name, cause), lambda name, _: f"{one_line(name)}: drained", as_json
    )
