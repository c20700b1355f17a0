"""What happened to jobs."""

from __future__ import annotations

from typing import Any, TypedDict


class Event(TypedDict):
    id: int
    at_s: float
    kind: str
    state: str
    attempt: int
    cause: str
    actor: str
    data: dict[str, Any] | None


class JobEvent(TypedDict):
    id: int
    job: str
    name: str
    at_s: float
    kind: str
    state: str
    attempt: int
    cause: str
