"""``gpusquad down``: stops the service on this machine."""

from __future__ import annotations

import typer


def down() -> None:
    """Stop the background service. Running jobs continue; the next start takes them over."""
    from gpusquad.app import background
    from gpusquad.app.config import home_folder

    if background.stop(home_folder()):
        typer.echo("gpusquad stopped. Running jobs continue.")
    else:
        typer.echo("gpusquad is not running on this machine.")
