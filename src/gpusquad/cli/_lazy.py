"""Verbs that are imported when they are used: listing all of them costs no more than one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from gpusquad.cli._fast_parse import quicken


class LazyVerb(TyperCommand):
    """Stands in a list for a verb. Whoever wants to run or complete it gets the real one in its place."""

    def __init__(self, name: str, module: str, summary: str, panel: str) -> None:
        super().__init__(name, help=summary, rich_help_panel=panel)
        self._module = module

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return quicken(self.load()).make_context(info_name, args, parent=parent, **extra)

    def load(self) -> Any:
        """What the module calls by the verb's name: a function, or a Typer with verbs of its own."""
        target = getattr(import_module(self._module), str(self.name))
        if not isinstance(target, typer.Typer):
            alone = typer.Typer(add_completion=False)
            alone.command(self.name)(target)
            target = alone
        return get_command(target)
