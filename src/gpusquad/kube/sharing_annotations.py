"""What a job is worth beside others, as annotations of its pods: the scheduler and the agents of nodes go by them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gpusquad.kube.names import DEADLINE, WEIGHT
from gpusquad.model.errors import Invalid
from gpusquad.model.sharing_params import SharingParams
from gpusquad.model.units import number, whole

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_WEIGHT = 1e6
_MOST_SHOWN = 60


def worth_of(sharing_params: SharingParams) -> dict[str, str]:
    """What users cannot say, and what may change while it runs. An empty text: there is none. The usual weight is
    written too, or what stands there would be anybody's."""
    deadline_us = sharing_params.slo.deadline_us if sharing_params.slo is not None else None
    return {
        WEIGHT: repr(float(sharing_params.weight)),
        DEADLINE: "" if deadline_us is None else (_EPOCH + timedelta(microseconds=deadline_us)).isoformat(),
    }


def weight_from_text(text: str, field: str = WEIGHT) -> float:
    try:
        said = float(text)
    except ValueError:
        raise _unreadable(text, field, "2.5") from None
    weight = number(said, field, high=_MOST_WEIGHT)
    if weight == 0:
        raise Invalid(field, "is zero", "write for example 2.5")
    return weight


def deadline_us_from_text(text: str, field: str = DEADLINE) -> int:
    """Since 1970. A moment without a zone is one of UTC."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        raise _unreadable(text, field, "2030-01-31T12:00:00Z") from None
    return whole((moment - _EPOCH) // timedelta(microseconds=1), field)


def _unreadable(text: str, field: str, example: str) -> Invalid:
    return Invalid(field, f"cannot read {text[:_MOST_SHOWN]!r}", f"write for example {example}")
