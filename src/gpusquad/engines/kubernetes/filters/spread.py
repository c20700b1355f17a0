"""Required topology spread constraints (DoNotSchedule). ScheduleAnyway is ignored on purpose."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.engines.kubernetes.filters.errors import UnsupportedRule
from gpusquad.engines.kubernetes.filters.selectors import IN, Labels, Requirement, Selector, read_selector
from gpusquad.kube.objects import Object, labels_of, namespace_of

_FIELD = "spec.topologySpreadConstraints"
_POLICIES = {"Honor": True, "Ignore": False}


@dataclass(frozen=True, slots=True, order=True)
class TopologySpread:
    """No domain may have more than ``max_skew`` matching pods above the domain with the fewest."""

    topology_key: str
    max_skew: int
    min_domains: int
    """With fewer domains than this, the minimum counts as zero."""
    selector: Selector
    namespace: str
    counts_itself: bool
    """The pod matches its own selector."""
    by_choice: bool = True
    """Only nodes that the pod's node selector and node affinity allow are counted."""
    by_taints: bool = False
    """Only nodes whose taints the pod tolerates are counted."""


def spreads_of(pod: Object) -> tuple[TopologySpread, ...]:
    raw = pod["spec"].get("topologySpreadConstraints") or ()
    hard = (item for item in raw if item.get("whenUnsatisfiable", "DoNotSchedule") != "ScheduleAnyway")
    return tuple(sorted({_spread(item, pod) for item in hard}))


def _spread(raw: Object, pod: Object) -> TopologySpread:
    if raw.get("whenUnsatisfiable", "DoNotSchedule") != "DoNotSchedule":
        raise UnsupportedRule(
            _FIELD, f"whenUnsatisfiable {raw['whenUnsatisfiable']!r} is not supported", "use DoNotSchedule"
        )
    labels = labels_of(pod)
    selector = _with_label_keys(read_selector(raw.get("labelSelector"), _FIELD), raw, labels)
    return TopologySpread(
        topology_key=raw["topologyKey"],
        max_skew=raw["maxSkew"],
        min_domains=raw.get("minDomains") or 1,
        selector=selector,
        namespace=namespace_of(pod),
        counts_itself=selector.matches(labels),
        by_choice=_policy(raw.get("nodeAffinityPolicy") or "Honor"),
        by_taints=_policy(raw.get("nodeTaintsPolicy") or "Ignore"),
    )


def _with_label_keys(selector: Selector, raw: Object, labels: Labels) -> Selector:
    """Unlike for affinity, kube-scheduler itself adds these, with the current labels of the pod."""
    keys = raw.get("matchLabelKeys") or ()
    return selector.with_requirements(Requirement(key, IN, (labels[key],)) for key in keys if key in labels)


def _policy(text: str) -> bool:
    if text not in _POLICIES:
        raise UnsupportedRule(_FIELD, f"node policy {text!r} is not supported", "use Honor or Ignore")
    return _POLICIES[text]
