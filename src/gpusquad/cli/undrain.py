"""``gpusquad undrain``: puts nodes back into use."""

from __future__ import annotations

from typing import Annotated

import typer

from gpusquad.cli import _complete
from gpusquad.cli._service import AsJson, connect


def undrain(
    node: Annotated[
        list[str],
        typer.Argument(metavar="NODE…", help="Node names.", autocompletion=_complete.nodes, show_default=False),
    ],
    as_json: AsJson = False,
) -> None:
    """Allow new jobs on drained nodes again."""
    from gpusquad.cli._batch import for_each
    from gpusquad.cli._sanitize import one_line

    client = connect()
    for_each(node, client.cluster.undrain, lambda name, _: f"{one_line(name)}: undrained", as_json)
