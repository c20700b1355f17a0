"""What a pod is worth beside others on a card, as its annotations and its priority class say it."""

from __future__ import annotations

from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.model.errors import Invalid
from gpusquad.model.job import PRIORITY_CLASSES
from gpusquad.model.known import with_known
from gpusquad.model.standing import Standing
from gpusquad.model.units import parse_us

PRIORITY = "gpusquad.io/priority"
ESTIMATE = "gpusquad.io/estimate"
KNOWN = "gpusquad.io/known"
"""What the scheduler knew of its speed, alone and beside others on its cards, when it was bound."""
_URGENT_FROM = 1_000_000


def standing_of(pod: Pod) -> Standing:
    """Never fails on what users can write: the scheduler tells them, and others' pods are not refused for it."""
    plain = Standing(priority=PRIORITY_CLASSES[_class_of(pod)], remaining_us=_estimate_us(pod))
    return with_known(plain, pod.annotations.get(KNOWN, ""))


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


def _estimate_us(pod: Pod) -> int | None:
    """All of it: a pod starts from the beginning, as far as anybody here knows. From then on the card's daemon counts
    down."""
    try:
        return parse_us(pod.annotations[ESTIMATE], ESTIMATE) or None
    except (KeyError, Invalid):
        return None
