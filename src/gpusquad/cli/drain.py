"""``gpusquad drain``: take nodes out of use."""

from __future__ import annotations

from typing import Annotated

import typer

from gpusquad.cli import _complete
from gpusquad.cli._service import AsJson, Cause, connect


def drain(
    node: Annotated[list[str], typer.Argument(metavar="NODE…", autocompletion=_complete.nodes, show_default=False)],
    cause: Cause = "",
    as_json: AsJson = False,
) -> None:
    """Start nothing new on nodes. What runs there, runs on."""
    from gpusquad.cli._batch import for_each
    from gpusquad.cli._sanitize import one_line

    client = connect()
    for_each(
        node, lambda name: client.cluster.drain(name, cause), lambda name, _: f"{one_line(name)}: drained", as_json
    )
