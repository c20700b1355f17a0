"""``gpusquad down``: stop the service of this machine."""

from __future__ import annotations

import typer


def down() -> None:
    """Stop the service that runs in the background. Jobs run on; the next start finds them again."""
    from gpusquad.app import background
    from gpusquad.app.config import home_folder

    if background.stop(home_folder()):
        typer.echo("gpusquad has stopped; jobs that ran run on")
    else:
        typer.echo("gpusquad does not run here")
