"""Networks to hold the analytical estimates against, written out in plain layers so that nothing but PyTorch is needed.

``zoo()`` gives each as a ``Case``. PyTorch is imported when asked for, not before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """A network with its input and its training target."""

    build: Callable[[], Any]
    sample: Callable[[int, str], tuple[Any, ...]]
    """(batch, device) -> arguments of the network, and the target as the last."""
    batches: tuple[int, ...]
    optimizer: str = "adamw"


def zoo() -> dict[str, Case]:
    """All of them by name."""
    from bench.analytical_models import sequence, vision

    return {**vision.cases(), **sequence.cases()}
