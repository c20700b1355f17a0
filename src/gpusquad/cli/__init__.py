"""The ``gpusquad`` command: one file per verb, imported when the verb is used. ``_verbs.py`` lists them."""

from __future__ import annotations

import gc
from typing import Annotated, Any

import typer

import gpusquad
from gpusquad.cli._errors import VerbGroup
from gpusquad.cli._fast_parse import install_fast_parser
from gpusquad.cli._verbs import verbs


class _Verbs(VerbGroup):
    """The top-level command with all verbs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands.update(verbs())

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        install_fast_parser(self)
        return super().make_context(info_name, args, parent=parent, **extra)


app = typer.Typer(
    cls=_Verbs,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="GPU scheduler: submit jobs, see why they wait, and test policies on logs of past jobs.",
)


_GC_THRESHOLDS = (50_000, 20, 50)
"""Thresholds of the garbage collector. The default of 700 new objects costs a short verb 5 % of its time and frees
nothing."""


def main() -> None:
    """The entry point of the package."""
    gc.set_threshold(*_GC_THRESHOLDS)
    app()


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"gpusquad {gpusquad.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
