"""Whether a run that listens for requests is a service, or a training that serves its metrics.

Both wait without limit when nothing happens. A training has shown steps and losses while it listened, and it ended in
the middle of them. If nobody uses its ports either, its wait is judged as if it did not listen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpusquad.agent.run_files import RunReading
from gpusquad.agent.waits import WaitReading
from gpusquad.model.units import US_PER_S

FEW_STEPS = 10
"""Steps from which a program trains. A service may number the stages of its start."""
_LOOK_US = 15 * US_PER_S
_YOUNG_US = 60 * US_PER_S
"""Age up to which a run is looked at in each tick, because it may hang soon."""


@dataclass(frozen=True, slots=True)
class ServedPorts:
    """What is known of the ports of a run. Immutable: every look gives a new value."""

    first_us: int | None = None
    looked_us: int = 0
    listens_us: int | None = None
    """When it was first seen to listen."""
    is_visited: bool = False
    """Whether somebody outside of the run was seen to use its ports."""

    def after(self, now_us: int, reading: RunReading, listens: Callable[[], bool]) -> ServedPorts:
        """Look whether a run that trains listens, until it does."""
        first_us = now_us if self.first_us is None else self.first_us
        every_us = 0 if now_us - first_us < _YOUNG_US else _LOOK_US
        if self.listens_us is not None or not is_training(reading) or now_us - self.looked_us < every_us:
            return replace(self, first_us=first_us)
        return replace(self, first_us=first_us, looked_us=now_us, listens_us=now_us if listens() else None)

    def visited(self, found: WaitReading) -> ServedPorts:
        return replace(self, is_visited=True) if found.is_visited else self


def is_training(reading: RunReading) -> bool:
    """Whether its output shows losses, and steps that have not reached their end."""
    is_over = reading.step is not None and reading.total is not None and reading.step >= reading.total
    return reading.output.has_losses and not is_over


def judge_service(found: WaitReading, reading: RunReading, ports: ServedPorts) -> WaitReading:
    """What a run waits for, if it listens. Where it cannot be told, it waits for somebody ``outside``: a warning."""
    besides = found.besides
    if found.kind != "service" or besides is None or besides.kind == "service" or not is_training(reading):
        return found
    how_far = "an unknown number" if reading.total is None else str(reading.total)
    if _hangs(besides, reading, ports):
        return WaitReading("stuck", f"{besides.detail}, after step {reading.step} of {how_far}; nobody uses its ports")
    return WaitReading("outside", f"{found.detail}, but its training has not reached its end")


def _hangs(besides: WaitReading, reading: RunReading, ports: ServedPorts) -> bool:
    """All that a service, or a program that waits for the answers of people, does not show together."""
    output = reading.output
    trains = reading.total is not None and output.steps >= FEW_STEPS and output.ends_in_training
    listened = ports.listens_us is not None and (reading.progress_at_us or 0) > ports.listens_us
    return besides.kind == "stuck" and trains and listened and not ports.is_visited
