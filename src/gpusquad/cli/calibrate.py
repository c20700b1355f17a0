"""``gpusquad calibrate``: measures the peak rates of this machine's GPU for offline estimates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def calibrate(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the measured rates to this JSON file.")],
    thoroughness: Annotated[
        float,
        typer.Option(min=0.1, max=4.0, help="Effort: 1 takes one or two minutes, 0.5 measures half of the shapes."),
    ] = 1.0,
) -> None:
    """Measure this machine's GPU for gpusquad.estimate. The GPU should be idle."""
    from gpusquad.predict.analytical.calibrate import main

    main(["--out", str(out), "--thoroughness", str(thoroughness)])
