"""``gpusquad replay``: decide again what was decided once, and say why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def replay(
    snapshot: Annotated[
        Path, typer.Argument(metavar="SNAPSHOT", help="A file that simulate --dump wrote.", show_default=False)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    most: Annotated[int, typer.Option(min=0, metavar="N", help="Explain at most so many waiting jobs.")] = 50,
) -> None:
    """Make the decisions of a snapshot again, and say of every waiting job what it waits for."""
    from gpusquad.cli._replay import as_plain, load, show

    replayed = load(snapshot, most)
    if as_json:
        import json

        typer.echo(json.dumps(as_plain(replayed), indent=2, allow_nan=False))
    else:
        show(replayed)
