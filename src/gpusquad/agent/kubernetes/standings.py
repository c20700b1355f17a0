"""What a pod is worth beside others on a card, as its annotations and its priority class say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.model.errors import Invalid
from gpusquad.model.goal_text import slo_from_text
from gpusquad.model.job import PRIORITY_CLASSES, Slo
from gpusquad.model.known import with_known
from gpusquad.model.standing import Standing
from gpusquad.model.units import number, parse_us, whole

PRIORITY = "gpusquad.io/priority"
ESTIMATE = "gpusquad.io/estimate"
KNOWN = "gpusquad.io/known"
"""What the scheduler knew of its speed, alone and beside others on its cards, when it was bound."""
SLO = "gpusquad.io/slo"
"""Its goals, as its user said them."""
WEIGHT, DEADLINE = "gpusquad.io/weight", "gpusquad.io/deadline"
"""The scheduler's word: the weight of its tenant, and a calendar time, for only it knows since when one counts."""
_MOST_WEIGHT = 1e6
_MOST_SHOWN = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_URGENT_FROM = 1_000_000
T = TypeVar("T")


def standing_of(pod: Pod) -> Standing:
    """Never fails on what users can write: others' pods are not refused for it."""
    return read_standing(pod)[0]


def read_standing(pod: Pod) -> tuple[Standing, tuple[str, ...]]:
    """The standing, without what cannot be read, and in words what that is."""
    wrong: list[str] = []

    def said(name: str, read: Callable[[str, str], T]) -> T | None:
        text = pod.annotations.get(name, "")
        try:
            return read(text, name) if text else None
        except Invalid as error:
            wrong.append(str(error))
            return None

    plain = Standing(
        weight=said(WEIGHT, _weight) or Standing().weight,
        priority=PRIORITY_CLASSES[_class_of(pod)],
        slo=_with_deadline(said(SLO, slo_from_text), said(DEADLINE, _moment_us)),
        remaining_us=said(ESTIMATE, _estimate_us),
    )
    return with_known(plain, pod.annotations.get(KNOWN, "")), tuple(wrong)


def _class_of(pod: Pod) -> str:
    """As the scheduler reads it: our own word, else the number of the priority class."""
    word = pod.annotations.get(PRIORITY, "")
    if word in PRIORITY_CLASSES:
        return word
    if pod.priority < 0:
        return "low"
    if pod.priority == 0:
        return "normal"
    return "high" if pod.priority < _URGENT_FROM else "urgent"


def _estimate_us(text: str, field: str) -> int | None:
    """All of it: a pod starts from the beginning, as far as anybody here knows. From then on the card's daemon counts
    down."""
    return parse_us(text, field) or None


def _weight(text: str, field: str) -> float:
    try:
        said = float(text)
    except ValueError:
        raise _unreadable(text, field, "2.5") from None
    weight = number(said, field, high=_MOST_WEIGHT)
    if weight == 0:
        raise Invalid(field, "is zero", "write for example 2.5")
    return weight


def _moment_us(text: str, field: str) -> int:
    """Since 1970. A moment without a zone is one of UTC."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        raise _unreadable(text, field, "2030-01-31T12:00:00Z") from None
    return whole((moment - _EPOCH) // timedelta(microseconds=1), field)


def _with_deadline(goals: Slo | None, deadline_us: int | None) -> Slo | None:
    """A deadline among its goals counts from the submission, which is not known here."""
    slo = replace(goals or Slo(), deadline_us=deadline_us)
    return None if slo == Slo() else slo


def _unreadable(text: str, field: str, example: str) -> Invalid:
    return Invalid(field, f"cannot read {text[:_MOST_SHOWN]!r}", f"write for example {example}")
