"""The ``gpusquad`` command: one file per verb. A verb imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

from typing import Annotated

import typer

import gpusquad
from gpusquad.cli._errors import Group
from gpusquad.cli.policies import policies
from gpusquad.cli.replay import replay
from gpusquad.cli.simulate import simulate

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Decide what runs together on GPUs, and try it on traces before anything changes in production.",
)
app.command()(simulate)
app.command()(policies)
app.command()(replay)


def main() -> None:
    """The entry point of the package."""
    app()


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"gpusquad {gpusquad.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass
