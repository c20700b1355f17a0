"""A workload: it is built on a card and then runs one step after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Step = Callable[[], None]
"""Queues the work of one iteration on the card. It need not wait for its end."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One entry of the catalogue."""

    name: str
    about: str
    build: Callable[[Any, str, int], Step]
    """From PyTorch (None if not needed), the device's name and the batch size."""
    batch: int = 1
    needs_torch: bool = True
