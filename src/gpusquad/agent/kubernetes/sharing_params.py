"""Sharing parameters of a pod from its annotations and its priority class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.kube.names import DEADLINE, ESTIMATE, KNOWN, MEASURED_RATES, PRIORITY, SLO, WEIGHT
from gpusquad.kube.sharing_annotations import deadline_us_from_text, weight_from_text
from gpusquad.model.errors import Invalid
from gpusquad.model.job import PRIORITY_CLASSES, Slo
from gpusquad.model.known_rates import with_known
from gpusquad.model.sharing_params import SharingParams
from gpusquad.model.slo_text import slo_from_text
from gpusquad.model.units import parse_us

_URGENT_FROM = 1_000_000
T = TypeVar("T")


def read_sharing_params(pod: Pod) -> tuple[SharingParams, tuple[str, ...]]:
    """The parameters without invalid annotations, and the errors as texts. No pod is refused for them."""
    errors: list[str] = []

    def read_annotation(name: str, read: Callable[[str, str], T]) -> T | None:
        text = pod.annotations.get(name, "")
        try:
            return read(text, name) if text else None
        except Invalid as error:
            errors.append(str(error))
            return None

    plain = SharingParams(
        weight=read_annotation(WEIGHT, weight_from_text) or SharingParams().weight,
        priority=PRIORITY_CLASSES[_class_of(pod)],
        slo=_with_deadline(read_annotation(SLO, slo_from_text), read_annotation(DEADLINE, deadline_us_from_text)),
        remaining_us=read_annotation(ESTIMATE, _estimate_us),
    )
    rates = pod.annotations.get(MEASURED_RATES) or pod.annotations.get(KNOWN, "")
    return with_known(plain, rates), tuple(errors)


def _class_of(pod: Pod) -> str:
    """As the scheduler reads it: the annotation, else the number of the priority class."""
    name = pod.annotations.get(PRIORITY, "")
    if name in PRIORITY_CLASSES:
        return name
    if pod.priority < 0:
        return "low"
    if pod.priority == 0:
        return "normal"
    return "high" if pod.priority < _URGENT_FROM else "urgent"


def _estimate_us(text: str, field: str) -> int | None:
    """The whole estimate: the agent assumes that a pod starts from the beginning. The card daemon counts down from
    there."""
    return parse_us(text, field) or None


def _with_deadline(goals: Slo | None, deadline_us: int | None) -> Slo | None:
    """A deadline within the SLO counts from the submission, which is not known here."""
    slo = replace(goals or Slo(), deadline_us=deadline_us)
    return None if slo == Slo() else slo
