"""``gpusquad up``: starts the service in the background."""

from __future__ import annotations

import typer

from gpusquad.cli.serve import DatabaseUrl, Host, Port, Simulate


def up(host: Host = None, port: Port = None, database: DatabaseUrl = None, simulate: Simulate = None) -> None:
    """Start the service in the background, unless it is already running."""
    from gpusquad.app import background
    from gpusquad.app.config import home_folder

    home = home_folder()
    found = background.running(home)
    if found is not None:
        typer.echo(f"gpusquad is already running at {found[0]} (process {found[1]}).")
        return
    given = {"--host": host, "--port": port, "--database": database, "--simulate": simulate}
    options = [part for name, value in given.items() if value is not None for part in (name, str(value))]
    url, pid = background.start(home, options)
    typer.echo(f"gpusquad is running at {url} (process {pid}, home {home}).")
    typer.echo(_cards(chosen=simulate is not None))
    typer.echo("To stop it, run: gpusquad down")


def _cards(*, chosen: bool) -> str:
    from gpusquad.cli._service import connect, counted

    cluster = connect().cluster.summary()
    if cluster["simulated"]:
        cards = counted(cluster["gpus"], "card")
        return f"{'' if chosen else 'No GPU found. '}Simulating {cards}. Jobs still run as real processes."
    return f"Found {counted(cluster['gpus'], 'GPU')}."
