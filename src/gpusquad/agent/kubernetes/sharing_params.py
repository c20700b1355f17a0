"""What a pod is worth beside others on a card, as its annotations and its priority class say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.kube.names import DEADLINE, ESTIMATE, KNOWN, PRIORITY, SLO, WEIGHT
from gpusquad.kube.sharing_annotations import deadline_us_from_text, weight_from_text
from gpusquad.model.errors import Invalid
from gpusquad.model.job import PRIORITY_CLASSES, Slo
from gpusquad.model.known_rates import with_known
from gpusquad.model.sharing_params import SharingParams
from gpusquad.model.slo_text import slo_from_text
from gpusquad.model.units import parse_us

_URGENT_FROM = 1_000_000
T = TypeVar("T")


def read_standing(pod: Pod) -> tuple[SharingParams, tuple[str, ...]]:
    """The standing, without what cannot be read, and in words what that is. It never fails on what users write: no pod
    is refused for it."""
    wrong: list[str] = []

    def said(name: str, read: Callable[[str, str], T]) -> T | None:
        text = pod.annotations.get(name, "")
        try:
            return read(text, name) if text else None
        except Invalid as error:
            wrong.append(str(error))
            return None

    plain = SharingParams(
        weight=said(WEIGHT, weight_from_text) or SharingParams().weight,
        priority=PRIORITY_CLASSES[_class_of(pod)],
        slo=_with_deadline(said(SLO, slo_from_text), said(DEADLINE, deadline_us_from_text)),
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


def _with_deadline(goals: Slo | None, deadline_us: int | None) -> Slo | None:
    """A deadline among its goals counts from the submission, which is not known here."""
    slo = replace(goals or Slo(), deadline_us=deadline_us)
    return None if slo == Slo() else slo
