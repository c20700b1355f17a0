"""Dialogs over the live view."""

from __future__ import annotations

from typing import ClassVar

from rich.console import RenderableType
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

_BOX = """
{name} {{ align: center middle; }}
{name} > * {{ width: 80%; height: auto; max-height: 80%; padding: 1 2; border: round $primary; background: $surface; }}
"""


class Confirm(ModalScreen[bool]):
    """A yes-or-no question."""

    CSS = _BOX.format(name="Confirm")
    BINDINGS: ClassVar = [("y", "answer(True)", "Yes"), ("n,escape,q", "answer(False)", "No")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content(self._question))
            yield Static("y: yes    n: no")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class MessageScreen(ModalScreen[None]):
    """A text, shown until a key is pressed."""

    CSS = _BOX.format(name="MessageScreen")
    BINDINGS: ClassVar = [("escape,enter,q,w", "dismiss", "Close")]

    def __init__(self, *parts: RenderableType) -> None:
        super().__init__()
        self._parts = parts

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            for part in self._parts:
                yield Static(part)
