"""``gpusquad calibrate``: the ceilings of this machine's GPU, for estimates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def calibrate(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the card (JSON).")],
    thoroughness: Annotated[
        float, typer.Option(min=0.1, max=4.0, help="1: a minute or two; 0.5: half the shapes.")
    ] = 1.0,
) -> None:
    """Measure the GPU of this machine, which should be idle, so that gpusquad.estimate knows what it can do."""
    from gpusquad.predict.analytical.calibrate import main

    main(["--out", str(out), "--thoroughness", str(thoroughness)])
