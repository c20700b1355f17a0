"""Whose estimator runs next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

AT_ONCE = 4
"""Estimators that run at a time."""
AT_ONCE_OF_A_USER = 2


class Turn(NamedTuple):
    """The next estimator to run, and the user whose turn it takes."""

    place: int
    user: str


class EstimatorTurns:
    """Users take turns. A user's second estimator leaves a slot free, so that a user without one need not wait."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        """User to the number of the latest turn."""
        self._count = 0

    def next(self, running: Sequence[str], waiting: Sequence[Collection[str]]) -> Turn | None:
        """``running``: a user for each slot in use. ``waiting``: for each estimator in the queue, the users of its
        jobs. None: none may run now."""
        free, counts = AT_ONCE - len(running), Counter(running)
        most = {0: 0, 1: 1}.get(free, AT_ONCE_OF_A_USER)
        turns = [Turn(place, user) for place, users in enumerate(waiting) for user in users if counts[user] < most]
        if not turns:
            return None
        turn = min(turns, key=lambda one: self._last.get(one.user, 0))
        self._count += 1
        self._last[turn.user] = self._count
        return turn
