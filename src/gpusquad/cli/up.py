"""``gpusquad up``: the service of this machine, in the background."""

from __future__ import annotations

import typer

from gpusquad.cli.serve import DatabaseUrl, Host, Port, Simulate


def up(host: Host = None, port: Port = None, database: DatabaseUrl = None, simulate: Simulate = None) -> None:
    """Start the service in the background, unless it runs already."""
    from gpusquad.app import background
    from gpusquad.app.config import home_folder

    home = home_folder()
    found = background.running(home)
    if found is not None:
        typer.echo(f"gpusquad runs already at {found[0]} (process {found[1]})")
        return
    given = {"--host": host, "--port": port, "--database": database, "--simulate": simulate}
    options = [part for name, value in given.items() if value is not None for part in (name, str(value))]
    url, pid = background.start(home, options)
    typer.echo(f"gpusquad runs at {url} (process {pid}); its home is {home}")
    typer.echo(_cards(chosen=simulate is not None))
    typer.echo("Stop it with: gpusquad down")


def _cards(*, chosen: bool) -> str:
    from gpusquad.cli._service import connect, counted

    cluster = connect().cluster.summary()
    if cluster["simulated"]:
        cards = counted(cluster["gpus"], "simulated card")
        return f"{'' if chosen else 'No GPU was found: '}{cards}. Jobs are real processes all the same."
    return f"{counted(cluster['gpus'], 'GPU')} found."
