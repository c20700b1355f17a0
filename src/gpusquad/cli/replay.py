"""``gpusquad replay``: repeats and explains the decisions of a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def replay(
    snapshot: Annotated[
        Path,
        typer.Argument(
            metavar="SNAPSHOT", help="Snapshot file, written by gpusquad simulate --dump.", show_default=False
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    most: Annotated[int, typer.Option(min=0, metavar="N", help="Explain at most N pending jobs.")] = 50,
) -> None:
    """Repeat the decisions of a snapshot, and explain why each pending job waits."""
    from gpusquad.cli._replay import as_plain, load, show

    replayed = load(snapshot, most)
    if as_json:
        import json

        typer.echo(json.dumps(as_plain(replayed), indent=2, allow_nan=False))
    else:
        show(replayed)
