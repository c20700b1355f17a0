"""Objects that a router keeps for the life of an app."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from starlette.datastructures import State as AppState

T = TypeVar("T")


def kept(app: AppState, name: str, make: Callable[[], T]) -> T:
    """Create it at the first call. Called on the event loop, so there is no race."""
    found = getattr(app, name, None)
    if found is None:
        found = make()
        setattr(app, name, found)
    return found
