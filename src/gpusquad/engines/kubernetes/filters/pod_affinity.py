"""Required affinity and anti-affinity between pods. Preferred terms are ignored on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gpusquad.engines.kubernetes.filters.node_affinity import REQUIRED
from gpusquad.engines.kubernetes.filters.selectors import (
    IN,
    NOT_IN,
    Labels,
    Requirement,
    Selector,
    read_selector,
)
from gpusquad.kube.objects import Object, labels_of, namespace_of

HOSTNAME = "kubernetes.io/hostname"
Side = Literal["podAffinity", "podAntiAffinity"]


@dataclass(frozen=True, slots=True, order=True)
class Term:
    """Pods by labels and namespace, within one domain: nodes with the same value of the label ``topology_key``."""

    topology_key: str
    selector: Selector
    namespaces: tuple[str, ...]
    namespace_selector: Selector

    @property
    def uses_namespaces(self) -> bool:
        """The result depends on the labels of namespaces."""
        return bool(self.namespace_selector.requirements)

    def matches(self, labels: Labels, namespace: str, namespace_labels: Labels | None) -> bool:
        """``namespace_labels`` None: the namespace is not known."""
        return self.covers(namespace, namespace_labels) and self.selector.matches(labels)

    def covers(self, namespace: str, namespace_labels: Labels | None) -> bool:
        if namespace in self.namespaces or self.namespace_selector.is_everything:
            return True
        return namespace_labels is not None and self.namespace_selector.matches(namespace_labels)


def terms_of(pod: Object, side: Side) -> tuple[Term, ...]:
    raw: Sequence[Object] = ((pod["spec"].get("affinity") or {}).get(side) or {}).get(REQUIRED) or ()
    return tuple(sorted({_term(item, pod, f"spec.affinity.{side}") for item in raw}))


def _term(raw: Object, pod: Object, field: str) -> Term:
    named, by_labels = raw.get("namespaces") or (), raw.get("namespaceSelector")
    own = (namespace_of(pod),) if not named and by_labels is None else ()
    return Term(
        topology_key=raw["topologyKey"],
        selector=_with_label_keys(read_selector(raw.get("labelSelector"), field), raw, labels_of(pod)),
        namespaces=tuple(sorted({*named, *own})),
        namespace_selector=read_selector(by_labels, field),
    )


def _with_label_keys(selector: Selector, raw: Object, labels: Labels) -> Selector:
    """The API server merges matchLabelKeys and mismatchLabelKeys into the selector when the pod is created. Keys in the
    selector are kept, so that a label changed later does not contradict it."""
    more = [
        Requirement(key, operator, (labels[key],))
        for field, operator in (("matchLabelKeys", IN), ("mismatchLabelKeys", NOT_IN))
        for key in raw.get(field) or ()
        if key in labels and not selector.mentions(key)
    ]
    return selector.with_requirements(more)
