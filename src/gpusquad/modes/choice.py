"""Chooses the mode of an automatic mode from the goals present. Pure: time and goals are arguments.

The first rule whose goal is present names the wanted mode, and ``otherwise`` if none is. The mode in force changes
slowly: the same mode must be wanted for ``settle_us`` (``otherwise`` for ``leave_us``, because the jobs with a goal may
be back the next morning), a change is followed by none for ``dwell_us``, and there are at most ``changes_per_day`` in
any 24 hours. While no job is pending, the goals show nothing, because every order of an empty queue is the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from gpusquad.model.units import US_PER_S
from gpusquad.modes.goals import Goals

Goal = Literal["deadlines", "services", "fairness"]
GOALS: tuple[Goal, ...] = ("deadlines", "services", "fairness")
DAY_US = 86_400 * US_PER_S
_NOTHING_PENDING = "no job is pending"


@dataclass(frozen=True, slots=True)
class ModeRule:
    """While this goal is present, use this mode."""

    goal: Goal
    mode: str
    least: float
    """Value from which the goal counts as present: a fraction of the jobs, for ``fairness`` a ratio of usage."""
    keep: float
    """Value down to which it stays present once the rule's mode is in force."""

    def holds(self, goals: Goals, is_in_force: bool) -> bool:
        value = {
            "deadlines": goals.deadline_ratio,
            "services": goals.service_ratio,
            "fairness": goals.usage_ratio if goals.contenders > 1 else 0.0,
        }[self.goal]
        return value > 0 and value >= (self.keep if is_in_force else self.least)


@dataclass(frozen=True, slots=True)
class ModeRules:
    """Rules of an automatic mode, the most important first."""

    rules: tuple[ModeRule, ...]
    otherwise: str
    settle_us: int = 600 * US_PER_S
    leave_us: int = 12 * 3600 * US_PER_S
    dwell_us: int = 4 * 3600 * US_PER_S
    changes_per_day: int = 2

    @property
    def modes(self) -> tuple[str, ...]:
        """All modes that can be chosen."""
        return tuple(dict.fromkeys([self.otherwise, *(rule.mode for rule in self.rules)]))

    def wanted(self, goals: Goals, in_force: str = "") -> tuple[str, str]:
        """The mode that fits these goals, and why."""
        for rule in self.rules:
            if rule.holds(goals, rule.mode == in_force):
                return rule.mode, goals.explain(rule.goal)
        return self.otherwise, goals.explain("")


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """The mode in force under an automatic mode, and what the next review must know."""

    mode: str
    why: str
    since_us: int
    changes_us: tuple[int, ...] = ()
    """Changes of the last 24 hours, oldest first."""
    wanted: str = ""
    """Another mode that fits the goals now. Empty: none."""
    wanted_why: str = ""
    wanted_since_us: int = 0
    due_us: int | None = None
    """When the wanted mode comes into force at the earliest."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> ModeChoice:
        return replace(ModeChoice(**data), changes_us=tuple(data["changes_us"]))


def first_choice(rules: ModeRules, goals: Goals, now_us: int) -> ModeChoice:
    """The choice when the automatic mode is set: at once, by the goals present."""
    if not goals.pending:
        return ModeChoice(rules.otherwise, _NOTHING_PENDING, now_us)
    return ModeChoice(*rules.wanted(goals), since_us=now_us)


def review(rules: ModeRules, choice: ModeChoice, goals: Goals, now_us: int) -> ModeChoice:
    """The choice from now on. Another ``mode`` is a change."""
    choice = replace(choice, changes_us=tuple(at_us for at_us in choice.changes_us if at_us > now_us - DAY_US))
    if not goals.pending:
        return choice
    mode, why = rules.wanted(goals, choice.mode)
    if mode == choice.mode:
        return replace(choice, why=why, wanted="", wanted_why="", due_us=None)
    since_us = choice.wanted_since_us if mode == choice.wanted else now_us
    due_us = _due_us(rules, choice, mode, since_us)
    if now_us < due_us:
        return replace(choice, wanted=mode, wanted_why=why, wanted_since_us=since_us, due_us=due_us)
    return ModeChoice(mode, why, now_us, (*choice.changes_us, now_us))


def _due_us(rules: ModeRules, choice: ModeChoice, wanted: str, since_us: int) -> int:
    """When a mode that is wanted since then may come into force."""
    due_us = since_us + (rules.leave_us if wanted == rules.otherwise else rules.settle_us)
    changes_us = choice.changes_us
    if changes_us:
        due_us = max(due_us, changes_us[-1] + rules.dwell_us)
    if len(changes_us) >= rules.changes_per_day:
        due_us = max(due_us, changes_us[-rules.changes_per_day] + DAY_US)
    return due_us
