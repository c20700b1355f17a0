"""Nodes that a pod or a volume selects by labels: node selectors and required node affinity.

Preferred node affinity is ignored on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpusquad.engines.kubernetes.filters.errors import UnsupportedRule
from gpusquad.engines.kubernetes.filters.selectors import (
    ABSENT,
    EXISTS,
    GREATER,
    IN,
    LESS,
    NOT_IN,
    Labels,
    Requirement,
    canonical,
    equalities,
    whole,
)
from gpusquad.kube.objects import Object

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NAME = "metadata.name"
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class NodeTerm:
    """All requirements must hold."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels, name: str) -> bool:
        of_labels = all(wanted.holds(labels.get(wanted.key)) for wanted in self.labels)
        return of_labels and all(wanted.holds(name) for wanted in self.names)


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """The selector and any one of the terms. ``terms`` None: no restriction; an empty tuple allows no node."""

    selector: tuple[Requirement, ...] = ()
    terms: tuple[NodeTerm, ...] | None = None

    @property
    def is_open(self) -> bool:
        return not self.selector and self.terms is None

    def allows(self, labels: Labels, name: str) -> bool:
        if not all(wanted.holds(labels.get(wanted.key)) for wanted in self.selector):
            return False
        return self.terms is None or any(term.matches(labels, name) for term in self.terms)


OPEN = NodeChoice()


def choice_of_pod(pod: Object) -> NodeChoice:
    spec = pod["spec"]
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    terms = None if required is None else read_terms(required.get("nodeSelectorTerms") or (), "spec.affinity")
    return NodeChoice(equalities(spec.get("nodeSelector")), terms)


def choice_of_volume(volume: Object) -> NodeChoice:
    """Volumes are selected by labels of nodes only, not by names."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is None:
        return OPEN
    terms = read_terms(required.get("nodeSelectorTerms") or (), f"persistentvolume {volume['metadata']['name']}")
    return NodeChoice((), tuple(sorted({NodeTerm(term.labels) for term in terms})))


def read_terms(raw: Sequence[Object], field: str) -> tuple[NodeTerm, ...]:
    """Leaves out terms that select nothing: empty ones, and those that Kubernetes cannot parse."""
    terms = (_term(item, field) for item in raw)
    return tuple(sorted({term for term in terms if term is not None}))


def _term(raw: Object, field: str) -> NodeTerm | None:
    labels = [_requirement(item, field) for item in raw.get("matchExpressions") or ()]
    names = [_name(item, field) for item in raw.get("matchFields") or ()]
    if not (labels or names) or not all(map(_is_readable, (*labels, *names))):
        return None
    return NodeTerm(canonical(labels), canonical(names))


def _requirement(raw: Object, field: str) -> Requirement:
    operator = raw.get("operator")
    if operator not in (IN, NOT_IN, EXISTS, ABSENT, GREATER, LESS):
        raise UnsupportedRule(
            field, f"operator {operator!r} is not supported", "use In, NotIn, Exists, DoesNotExist, Gt or Lt"
        )
    return Requirement(raw["key"], operator, tuple(sorted(set(raw.get("values") or ()))))


def _name(raw: Object, field: str) -> Requirement:
    if raw.get("key") != _NAME or raw.get("operator") not in (IN, NOT_IN):
        raise UnsupportedRule(
            field, f"matchFields by {raw.get('key')!r} is not supported", f"use {_NAME} with In or NotIn"
        )
    if len(raw.get("values") or ()) != 1:
        raise UnsupportedRule(field, f"matchFields by {_NAME} takes one value", "use one name per term")
    return Requirement(_NAME, raw["operator"], tuple(raw["values"]))


def _is_readable(wanted: Requirement) -> bool:
    """kube-scheduler skips a term whose operator and values do not fit. Accepting it would allow more nodes than
    kube-scheduler does."""
    if wanted.operator in (EXISTS, ABSENT):
        return not wanted.values
    if wanted.operator in (GREATER, LESS) and (len(wanted.values) != 1 or whole(wanted.values[0]) is None):
        return False
    valid = wanted.key == _NAME or all(_LABEL_VALUE.fullmatch(value) for value in wanted.values)
    return bool(wanted.values) and valid
