"""Verbs with subcommands, such as ``gpusquad policy set``. Without a subcommand they list or show."""

from __future__ import annotations

from collections.abc import Callable

import typer


def group(summary: str, alone: Callable[[], None]) -> typer.Typer:
    """``alone`` runs if no subcommand is given."""
    made = typer.Typer(add_completion=False, invoke_without_command=True, help=summary)

    @made.callback()
    def _run(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            alone()

    return made
