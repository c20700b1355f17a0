"""Sharing parameters of a job as annotations of its pods. The scheduler writes them, the agents read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gpusquad.kube.names import DEADLINE, WEIGHT
from gpusquad.model.errors import Invalid
from gpusquad.model.sharing_params import SharingParams
from gpusquad.model.units import number, whole

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_WEIGHT = 1e6
_MAX_SHOWN = 60


def sharing_annotations(params: SharingParams) -> dict[str, str]:
    """Annotations that the scheduler alone writes. An empty text: there is no deadline. The default weight is written
    too, because otherwise a user could set another one."""
    deadline_us = params.slo.deadline_us if params.slo is not None else None
    return {
        WEIGHT: repr(float(params.weight)),
        DEADLINE: "" if deadline_us is None else (_EPOCH + timedelta(microseconds=deadline_us)).isoformat(),
    }


def weight_from_text(text: str, field: str = WEIGHT) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _unreadable(text, field, "2.5") from None
    weight = number(value, field, high=_MAX_WEIGHT)
    if weight == 0:
        raise Invalid(field, "is zero", "write for example 2.5")
    return weight


def deadline_us_from_text(text: str, field: str = DEADLINE) -> int:
    """Since 1970. A time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        raise _unreadable(text, field, "2030-01-31T12:00:00Z") from None
    return whole((moment - _EPOCH) // timedelta(microseconds=1), field)


def _unreadable(text: str, field: str, example: str) -> Invalid:
    return Invalid(field, f"cannot read {text[:_MAX_SHOWN]!r}", f"write for example {example}")
