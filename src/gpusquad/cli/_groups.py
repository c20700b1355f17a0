"""Verbs that have verbs of their own: ``gpusquad policy set``. Alone they show what there is."""

from __future__ import annotations

from collections.abc import Callable

import typer


def group(summary: str, alone: Callable[[], None]) -> typer.Typer:
    """``alone`` is what the bare verb does."""
    made = typer.Typer(add_completion=False, invoke_without_command=True, help=summary)

    @made.callback()
    def _run(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            alone()

    return made
