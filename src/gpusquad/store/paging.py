"""Pages that stay stable while rows are added: a page starts after the last row of the previous one."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpusquad.model.errors import Invalid

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows and the cursor of the next page; None: there are no more."""

    items: Sequence[T]
    next_cursor: str | None = None


def to_cursor(*parts: str | int) -> str:
    """An opaque text that users pass back."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def from_cursor(cursor: str, *kinds: type) -> list:
    """The values given to ``to_cursor``, if they have these types."""
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError) as error:
        raise _unreadable() from error
    if not isinstance(parts, list) or [type(part) for part in parts] != list(kinds):
        raise _unreadable()
    return parts


def _unreadable() -> Invalid:
    return Invalid("cursor", "is not one of this list", "start again without it")
