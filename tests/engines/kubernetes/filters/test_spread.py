"""Tests of rare cases of topology spread and affinity."""

from __future__ import annotations

from gpusquad.engines.kubernetes.filters import NodeMasks, PodIndex, rule_of
from tests.engines.kubernetes.filters.random_objects import REQUIRED, Object


def node(name: str, *taints: Object, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}


def pod(name: str = "pod", **spec: object) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "x"}}
    return {"metadata": metadata, "spec": {"containers": [], **spec}}


def spread(**more: object) -> Object:
    constraint = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return pod(topologySpreadConstraints=[{**constraint, "labelSelector": {"matchLabels": {"app": "x"}}, **more}])


def near(*keys: str) -> Object:
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": "x"}}} for key in keys]
    return pod(affinity={"podAffinity": {REQUIRED: terms}})


def mask(pending: Object, nodes: list[Object], *placed: Object) -> list[bool]:
    index = PodIndex()
    for placed_pod in placed:
        index.put(placed_pod)
    return NodeMasks(nodes, index).mask(rule_of(pending, index)).tolist()


TAINT = {"key": "broken", "effect": "NoSchedule"}


def test_tainted_domains_count_for_spread_unless_taints_are_honored():
    """The third zone has no pod, so one more pod in the others would exceed the skew."""
    nodes = [node("a", zone="1"), node("b", zone="2"), node("c", TAINT, zone="3")]
    placed = [pod("one", nodeName="a"), pod("two", nodeName="b")]
    assert mask(spread(), nodes, *placed) == [False, False, False]
    assert mask(spread(nodeTaintsPolicy="Ignore"), nodes, *placed) == [False, False, False]
    assert mask(spread(nodeTaintsPolicy="Honor"), nodes, *placed) == [True, True, False]


def test_unselected_nodes_count_for_spread_when_affinity_is_ignored():
    nodes = [node("a", zone="1", ok="y"), node("b", zone="2", ok="y"), node("c", zone="3")]
    placed = [pod("one", nodeName="a"), pod("two", nodeName="b")]
    for policy, expected in (("Honor", [True, True, False]), ("Ignore", [False, False, False])):
        pending = spread(nodeAffinityPolicy=policy)
        pending["spec"]["nodeSelector"] = {"ok": "y"}
        assert mask(pending, nodes, *placed) == expected


def test_minimum_is_zero_with_fewer_domains_than_min_domains():
    nodes = [node("a", zone="1"), node("b", zone="2")]
    placed = [pod("one", nodeName="a"), pod("two", nodeName="b")]
    assert mask(spread(minDomains=2), nodes, *placed) == [True, True]
    assert mask(spread(minDomains=3), nodes, *placed) == [False, False]


def test_terminating_pods_count_for_affinity_but_not_for_spread():
    nodes = [node("a", zone="1"), node("b", zone="2")]
    leaving = pod("one", nodeName="a")
    assert mask(spread(), nodes, leaving) == [False, True]
    leaving["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert mask(spread(), nodes, leaving) == [True, True]
    index = PodIndex()
    index.put(leaving)
    index.put(pod("two", nodeName="a"))
    masks = NodeMasks(nodes, index)
    assert masks.mask(rule_of(spread(maxSkew=1))).tolist() == [False, True]
    assert masks.mask(rule_of(spread(maxSkew=2))).tolist() == [True, True]
    assert mask(near("zone"), nodes, leaving) == [True, False]


def test_empty_selector_counts_no_pod_as_in_kube_scheduler():
    nodes = [node("a", zone="1"), node("b", zone="2")]
    assert mask(spread(labelSelector={}), nodes, pod("one", nodeName="a")) == [True, True]
    assert mask(spread(labelSelector={}, matchLabelKeys=["app"]), nodes, pod("one", nodeName="a")) == [False, True]


def test_first_pod_of_an_affinity_group_may_use_any_domain():
    nodes = [node("a", zone="1", rack="1"), node("b", zone="2", rack="2"), node("c", zone="2"), node("d", rack="1")]
    assert mask(near("zone", "rack"), nodes) == [True, True, False, False]
    assert mask(near("zone", "rack"), nodes, pod("one", nodeName="a")) == [True, False, False, False]


def test_affinity_group_is_started_when_a_pod_has_any_of_the_keys():
    zoned, racked = node("a", zone="1"), node("b", rack="1")
    both = node("c", zone="2", rack="2")
    assert mask(near("zone", "rack"), [zoned, both], pod("one", nodeName="a")) == [False, False]
    assert mask(near("zone", "rack"), [racked, both], pod("one", nodeName="b")) == [False, False]
    assert mask(near("zone", "rack"), [node("d"), both], pod("one", nodeName="d")) == [False, True]
