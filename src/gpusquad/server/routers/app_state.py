"""What a router keeps for as long as its app lives, beside the services that it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from starlette.datastructures import State as AppState

T = TypeVar("T")


def kept(app: AppState, name: str, make: Callable[[], T]) -> T:
    """One for the life of an app, made by the first who asks. Called on the loop, so nobody asks at the same time."""
    found = getattr(app, name, None)
    if found is None:
        found = make()
        setattr(app, name, found)
    return found
