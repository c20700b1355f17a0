"""Times when nodes take no work."""

from __future__ import annotations

from typing import TypedDict


class Window(TypedDict):
    id: str
    nodes: list[str]
    start_s: float
    end_s: float | None
    by: str
    cause: str
