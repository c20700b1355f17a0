"""Particulars of spread and affinity that chance seldom meets."""

from __future__ import annotations

from gpusquad.engines.kubernetes.filters import NodeMasks, PodIndex, rule_of
from tests.engines.kubernetes.filters.made import REQUIRED, Object


def node(name: str, *taints: Object, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}


def pod(name: str = "pod", **spec: object) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "x"}}
    return {"metadata": metadata, "spec": {"containers": [], **spec}}


def spread(**more: object) -> Object:
    one = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return pod(topologySpreadConstraints=[{**one, "labelSelector": {"matchLabels": {"app": "x"}}, **more}])


def near(*keys: str) -> Object:
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": "x"}}} for key in keys]
    return pod(affinity={"podAffinity": {REQUIRED: terms}})


def mask(one: Object, nodes: list[Object], *placed: Object) -> list[bool]:
    index = PodIndex()
    for other in placed:
        index.put(other)
    return NodeMasks(nodes, index).mask(rule_of(one, index)).tolist()


TAINT = {"key": "broken", "effect": "NoSchedule"}


def test_domains_that_the_pod_cannot_go_to_count_unless_it_says_otherwise():
    """Nobody is in the third zone, so one more in the others would be too many."""
    nodes = [node("a", zone="1"), node("b", zone="2"), node("c", TAINT, zone="3")]
    placed = [pod("one", nodeName="a"), pod("two", nodeName="b")]
    assert mask(spread(), nodes, *placed) == [False, False, False]
    assert mask(spread(nodeTaintsPolicy="Ignore"), nodes, *placed) == [False, False, False]
    assert mask(spread(nodeTaintsPolicy="Honor"), nodes, *placed) == [True, True, False]


def test_nodes_outside_of_the_choice_count_if_the_pod_says_so():
    nodes = [node("a", zone="1", ok="y"), node("b", zone="2", ok="y"), node("c", zone="3")]
    placed = [pod("one", nodeName="a"), pod("two", nodeName="b")]
    for policy, expected in (("Honor", [True, True, False]), ("Ignore", [False, False, False])):
        one = spread(nodeAffinityPolicy=policy)
        one["spec"]["nodeSelector"] = {"ok": "y"}
        assert mask(one, nodes, *placed) == expected


def test_with_fewer_domains_than_asked_for_the_fewest_is_none():
    nodes = [node("a", zone="1"), node("b", zone="2")]
    placed = [pod("one", nodeName="a"), pod("two", nodeName="b")]
    assert mask(spread(minDomains=2), nodes, *placed) == [True, True]
    assert mask(spread(minDomains=3), nodes, *placed) == [False, False]


def test_pods_that_are_being_deleted_count_for_affinity_and_not_for_spread():
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


def test_an_empty_selector_counts_nobody_as_kube_scheduler_has_it():
    nodes = [node("a", zone="1"), node("b", zone="2")]
    assert mask(spread(labelSelector={}), nodes, pod("one", nodeName="a")) == [True, True]
    assert mask(spread(labelSelector={}, matchLabelKeys=["app"]), nodes, pod("one", nodeName="a")) == [False, True]


def test_the_first_of_pods_that_want_to_be_together_may_choose():
    nodes = [node("a", zone="1", rack="1"), node("b", zone="2", rack="2"), node("c", zone="2"), node("d", rack="1")]
    assert mask(near("zone", "rack"), nodes) == [True, True, False, False]
    assert mask(near("zone", "rack"), nodes, pod("one", nodeName="a")) == [True, False, False, False]


def test_there_is_no_first_where_one_is_in_a_domain_of_any_of_the_keys():
    zoned, racked = node("a", zone="1"), node("b", rack="1")
    both = node("c", zone="2", rack="2")
    assert mask(near("zone", "rack"), [zoned, both], pod("one", nodeName="a")) == [False, False]
    assert mask(near("zone", "rack"), [racked, both], pod("one", nodeName="b")) == [False, False]
    assert mask(near("zone", "rack"), [node("d"), both], pod("one", nodeName="d")) == [False, True]
