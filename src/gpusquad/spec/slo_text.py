"""A goal in one line, for the command line: ``p99=20ms,throughput=100``. Needs no Pydantic."""

from __future__ import annotations

from gpusquad.model.errors import Invalid
from gpusquad.model.fields import MOST_TEXT, Fields
from gpusquad.spec.paths import short

_ALSO_CALLED = {"p99": "latency"}
_GOALS = ("deadline", "latency", "p99", "throughput", "availability")


def slo_from_text(text: str) -> dict[str, str | float]:
    """The ``slo`` of a job file."""
    if len(text) > MOST_TEXT:
        raise Invalid("slo", f"has {len(text)} characters", f"keep it to {MOST_TEXT}")
    result: dict[str, str | float] = {}
    for item in text.split(","):
        name, is_pair, value = (part.strip() for part in item.partition("="))
        if not is_pair or not value:
            raise Invalid("slo", f"cannot read {short(item)}", "write for example p99=20ms,throughput=100")
        goal = _ALSO_CALLED.get(name, name)
        if goal in result:
            raise Invalid(f"slo.{name}", "is given twice", "keep one of them")
        result[goal] = _checked(name, value)
    return result


def _checked(name: str, text: str) -> str | float:
    """The value, read once to see that it can be."""
    is_time = name not in ("throughput", "availability")
    value = text if is_time or text.endswith("%") else _number(name, text)
    fields = Fields({name: value}, "slo", _GOALS)
    read = {"throughput": fields.positive, "availability": fields.ratio}.get(name, fields.us)
    read(name)
    return value


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Invalid(f"slo.{name}", f"expected a number, got {short(text)}") from None
