"""Label selectors of pods, nodes and namespaces: canonical and hashable, so that equal ones share their results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpusquad.engines.kubernetes.filters.errors import UnsupportedRule
from gpusquad.kube.objects import Object

Labels = Mapping[str, str]

IN, NOT_IN, EXISTS, ABSENT, GREATER, LESS = "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
SET_OPERATORS = frozenset((IN, NOT_IN, EXISTS, ABSENT))

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """A condition on one label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """``value`` None: there is no such label, which satisfies NotIn as well."""
        if self.operator == IN:
            return value in self.values
        if self.operator == NOT_IN:
            return value not in self.values
        if self.operator == EXISTS:
            return value is not None
        if self.operator == ABSENT:
            return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        """Gt and Lt: a value that is not a 64-bit integer is neither greater nor less."""
        label, bound = whole(value), whole(self.values[0])
        if label is None or bound is None:
            return False
        return label > bound if self.operator == GREATER else label < bound


@dataclass(frozen=True, slots=True, order=True)
class Selector:
    """All requirements must hold. Without any it selects everything, unless ``is_nothing``."""

    requirements: tuple[Requirement, ...] = ()
    is_nothing: bool = False

    @property
    def is_everything(self) -> bool:
        return not self.requirements and not self.is_nothing

    def matches(self, labels: Labels) -> bool:
        return not self.is_nothing and all(wanted.holds(labels.get(wanted.key)) for wanted in self.requirements)

    def mentions(self, key: str) -> bool:
        return any(wanted.key == key for wanted in self.requirements)

    def with_requirements(self, more: Iterable[Requirement]) -> Selector:
        """A selector of nothing stays one."""
        return self if self.is_nothing else Selector(canonical((*self.requirements, *more)))

    def anchor(self) -> Requirement | None:
        """A requirement with few values, by which candidates can be looked up."""
        equal = [wanted for wanted in self.requirements if wanted.operator == IN]
        return min(equal, key=lambda wanted: len(wanted.values), default=None)


EVERYTHING = Selector()
NOTHING = Selector(is_nothing=True)


def canonical(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(set(requirements)))


def equalities(labels: Labels | None) -> tuple[Requirement, ...]:
    """``matchLabels`` or a node selector: each label has exactly this value."""
    return canonical(Requirement(key, IN, (value,)) for key, value in (labels or {}).items())


def read_selector(raw: Object | None, field: str) -> Selector:
    """A ``LabelSelector``. An absent one selects nothing, an empty one everything."""
    if raw is None:
        return NOTHING
    expressions = [_expression(item, field) for item in raw.get("matchExpressions") or ()]
    return Selector(canonical((*equalities(raw.get("matchLabels")), *expressions)))


def whole(text: str | None) -> int | None:
    """As Kubernetes parses numbers in labels: decimal, with an optional sign."""
    if text is None or _WHOLE.fullmatch(text) is None:
        return None
    number = int(text) if len(text) <= 40 else _INT64.stop
    return number if number in _INT64 else None


def _expression(raw: Object, field: str) -> Requirement:
    operator, values = raw.get("operator"), tuple(sorted(set(raw.get("values") or ())))
    takes_values = operator in (IN, NOT_IN)
    if operator not in SET_OPERATORS or takes_values != bool(values):
        raise UnsupportedRule(
            field, f"operator {operator!r} with {len(values)} values is not supported",
            "use In or NotIn with values, Exists or DoesNotExist without",
        )  # fmt: skip
    return Requirement(raw["key"], operator, values)
