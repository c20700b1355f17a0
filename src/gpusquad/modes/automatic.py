"""An automatic mode in a simulation: reviews the goals before each cycle and returns the policies of another mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpusquad.core.state.policies import Policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S
from gpusquad.modes.choice import ModeChoice, first_choice, review
from gpusquad.modes.files import choosable
from gpusquad.modes.goals import goals_of
from gpusquad.modes.mode import Mode

REVIEW_US = 60 * US_PER_S
"""Least time between two reviews."""


@dataclass(frozen=True, slots=True)
class ChosenMode:
    """A mode that was chosen, since when and why."""

    at_us: int
    mode: str
    why: str


class AutomaticMode:
    """Called with the state and the time before each cycle. Returns the policies to change to, or None."""

    def __init__(
        self, mode: Mode, policies: Callable[[Mode], Policies], on_change: Callable[[Mode], None] = lambda mode: None
    ) -> None:
        if mode.rules is None:
            raise Invalid("mode", f"{mode.name!r} is not an automatic mode")
        self._rules, self._modes = mode.rules, choosable(mode)
        self._policies, self._on_change = policies, on_change
        self._choice: ModeChoice | None = None
        self._reviewed_us = 0
        self.chosen: list[ChosenMode] = []
        """The first mode and all later ones."""

    def __call__(self, state: SchedulerState, now_us: int) -> tuple[Policies, str] | None:
        before = self._choice
        if before is not None and now_us < self._reviewed_us + REVIEW_US:
            return None
        self._reviewed_us = now_us
        goals = goals_of(state, now_us)
        if before is None:
            self._choice = first_choice(self._rules, goals, now_us)
        else:
            self._choice = review(self._rules, before, goals, now_us)
        if before is not None and self._choice.mode == before.mode:
            return None
        self.chosen.append(ChosenMode(now_us, self._choice.mode, self._choice.why))
        if before is None and self._choice.mode == self._rules.otherwise:
            return None
        mode = self._modes[self._choice.mode]
        self._on_change(mode)
        return self._policies(mode), f"mode {mode.name}: {self._choice.why}"
