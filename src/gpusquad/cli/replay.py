"""``gpusquad replay``: decide again what was decided once, and say why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def replay(
    snapshot: Annotated[Path, typer.Argument(help="A file that simulate --dump wrote.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make the decisions of a snapshot again and explain them."""
    raise NotImplementedError
