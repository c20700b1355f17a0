"""Steps in the lines of a task: whether they move, stay the same, or go back again and again."""

from __future__ import annotations

from gpusquad.agent.progress import ProgressLine

_FINISHED = 0.9
"""A count that came so far has ended, and may start again: of the next epoch, file or evaluation."""


class StepSigns:
    """Fed with every line of one task."""

    def __init__(self) -> None:
        self.same = 0
        self.same_us: int | None = None
        self.longest_us: int | None = None
        """Longest step that ended."""
        self.ahead_us: int | None = None
        """Last line with a step, or anything else but fractions, that was not there before."""
        self.falls = 0
        """Steps since then that are less than the one before, of a count that did not reach its end."""
        self.restarts = 0
        """Lines about errors and restarts since then."""
        self._step: ProgressLine | None = None
        self._begun_us: int | None = None
        self._highest: int | None = None

    def take(self, seen: ProgressLine | None, at_us: int, *, is_new: bool, complete: bool, is_restart: bool) -> bool:
        """Whether another step began. ``seen``: None also for the step of an evaluation. ``is_new``: apart from
        fractions."""
        steps = seen is not None and seen.step is not None
        moves = steps and seen != self._step
        self._watch_falls(seen if moves else None, at_us, is_new=is_new)
        self.restarts += complete and is_restart and not is_new
        if moves:
            if self._begun_us is not None:
                self.longest_us = max(self.longest_us or 0, at_us - self._begun_us)
            self._begun_us = at_us
        if is_new or moves:
            self.same, self.same_us = 0, at_us
            self._step = seen if steps else self._step
        elif steps and complete:
            self.same += 1
        return moves

    def _watch_falls(self, seen: ProgressLine | None, at_us: int, *, is_new: bool) -> None:
        if is_new:
            self.ahead_us, self.falls, self.restarts = at_us, 0, 0
        if seen is None or seen.step is None:
            return
        before = self._step
        if before is None or before.total != seen.total or before.step is None:
            self._highest, self.falls = seen.step, 0
            return
        self._highest = max(self._highest or 0, seen.step)
        if seen.total is None or self._highest >= _FINISHED * seen.total:
            self.falls = 0
        elif seen.step < before.step:
            self.falls += 1
