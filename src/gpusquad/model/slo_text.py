"""An SLO in one line, ``p99=20ms,throughput=100``, for the command line and for pod annotations."""

from __future__ import annotations

from gpusquad.model.errors import Invalid
from gpusquad.model.fields import MAX_TEXT, Fields
from gpusquad.model.job import Slo
from gpusquad.model.units import US_PER_S

_ALSO_CALLED = {"p99": "latency"}
_GOALS = ("deadline", "latency", "throughput", "availability")
_WRITTEN = (*_GOALS, *_ALSO_CALLED)
_US_PER_MS = 1000
_SHOWN = 60


def goals_in(text: str, field: str = "slo") -> dict[str, str | float]:
    """Convert to the ``slo`` of a job file. ``field``: name of the field, for errors."""
    if len(text) > MAX_TEXT:
        raise Invalid(field, f"has {len(text)} characters", f"keep it to {MAX_TEXT}")
    result: dict[str, str | float] = {}
    for item in text.split(","):
        name, is_pair, value = (part.strip() for part in item.partition("="))
        if not is_pair or not value:
            raise Invalid(field, f"cannot read {_short(item)}", "write for example p99=20ms,throughput=100")
        goal = _ALSO_CALLED.get(name, name)
        if goal in result:
            raise Invalid(f"{field}.{name}", "is given twice", "keep one of them")
        result[goal] = _checked(name, value, field)
    return result


def slo_from(data: object, field: str, submitted_us: int) -> Slo:
    """Read an SLO. A deadline is relative to the submit time."""
    given = Fields(data, field, _GOALS)
    deadline_us = given.optional_us("deadline")
    return Slo(
        deadline_us=None if deadline_us is None else submitted_us + deadline_us,
        latency_us=given.optional_us("latency"),
        throughput_per_s=given.per_s("throughput"),
        availability_ratio=given.ratio("availability"),
    )


def slo_from_text(text: str, field: str, submitted_us: int = 0) -> Slo:
    return slo_from(goals_in(text, field), field, submitted_us)


def goal_text(slo: Slo | None, submitted_us: int = 0) -> str:
    """Text that ``slo_from_text`` reads back exactly. Empty: no SLO."""
    if slo is None:
        return ""
    given = {
        "deadline": None if slo.deadline_us is None else _time(slo.deadline_us - submitted_us),
        "latency": None if slo.latency_us is None else _time(slo.latency_us),
        "throughput": slo.throughput_per_s,
        "availability": slo.availability_ratio,
    }
    return ",".join(f"{name}={value}" for name, value in given.items() if value is not None)


def _checked(name: str, text: str, field: str) -> str | float:
    """The value, after a check that it can be read."""
    value = _number(name, text, field) if name == "availability" and not text.endswith("%") else text
    fields = Fields({name: value}, field, _WRITTEN)
    if name == "throughput":
        return fields.per_s(name) or value
    (fields.ratio if name == "availability" else fields.us)(name)
    return value


def _number(name: str, text: str, field: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Invalid(
            f"{field}.{name}", f"expected a number, got {_short(text)}", "write for example 0.999 or 99.9%"
        ) from None


def _time(us: int) -> str:
    """The exact time, in the usual unit if possible."""
    if us % US_PER_S == 0:
        return f"{us // US_PER_S}s"
    return f"{us // _US_PER_MS}ms" if us % _US_PER_MS == 0 else f"{us}us"


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"
