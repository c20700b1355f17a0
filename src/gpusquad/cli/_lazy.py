"""Verbs that are imported when they are used, so that the list of all verbs is fast."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from gpusquad.cli._fast_parse import install_fast_parser


class LazyVerb(TyperCommand):
    """Placeholder for a verb. Running or completing it loads the real one."""

    def __init__(self, name: str, module: str, summary: str, panel: str) -> None:
        super().__init__(name, help=summary, rich_help_panel=panel)
        self._module = module

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return install_fast_parser(self.load()).make_context(info_name, args, parent=parent, **extra)

    def load(self) -> Any:
        """The command in the verb's module: a function, or a Typer with subcommands."""
        target = getattr(import_module(self._module), str(self.name))
        if not isinstance(target, typer.Typer):
            alone = typer.Typer(add_completion=False)
            alone.command(self.name)(target)
            target = alone
        return get_command(target)
