"""Sharing parameters of a pod from its annotations and its priority class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.kube.names import DEADLINE, ESTIMATE, KNOWN, MEASURED_RATES, PRIORITY, SLO, WEIGHT
from gpusquad.kube.sharing_annotations import deadline_us_from_text, weight_from_text
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Slo
from gpusquad.model.known_rates import with_known
from gpusquad.model.priority import card_level_of, is_priority, level_of
from gpusquad.model.sharing_params import SharingParams
from gpusquad.model.slo_text import slo_from_text
from gpusquad.model.units import parse_us

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
        priority=card_level_of(_priority_of(pod)),
        slo=_with_deadline(read_annotation(SLO, slo_from_text), read_annotation(DEADLINE, deadline_us_from_text)),
        remaining_us=read_annotation(ESTIMATE, _estimate_us),
    )
    rates = pod.annotations.get(MEASURED_RATES) or pod.annotations.get(KNOWN, "")
    return with_known(plain, rates), tuple(errors)


def _priority_of(pod: Pod) -> int:
    """As the scheduler reads it: the annotation, else that of the PriorityClass."""
    text = pod.annotations.get(PRIORITY, "")
    return level_of(text) if is_priority(text) else pod.priority


def _estimate_us(text: str, field: str) -> int | None:
    """The whole estimate: the agent assumes that a pod starts from the beginning. The card daemon counts down from
    there."""
    return parse_us(text, field) or None


def _with_deadline(goals: Slo | None, deadline_us: int | None) -> Slo | None:
    """A deadline within the SLO counts from the submission, which is not known here."""
    slo = replace(goals or Slo(), deadline_us=deadline_us)
    return None if slo == Slo() else slo
