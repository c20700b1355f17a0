"""Tests of node masks against the naive reference, while the cluster changes."""

from __future__ import annotations

import copy
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.filters import NodeMasks, PlacementRule, PodIndex, explain, rule_of
from gpusquad.engines.kubernetes.filters import masks as masks_module
from gpusquad.engines.kubernetes.filters import pod_index as pod_index_module
from tests.engines.kubernetes.filters import naive, random_objects

Object = random_objects.Object
rng = st.integers(0, 2**32).map(Random)


class Cluster:
    """A random cluster whose changes are passed to the masks step by step."""

    def __init__(self, rng: Random, nodes: int) -> None:
        self.rng = rng
        self.nodes = [random_objects.node(rng, f"fake-{number}") for number in range(nodes)]
        self.placed: dict[str, Object] = {}
        self.index = PodIndex()
        for name, labels in random_objects.NAMESPACES.items():
            self.index.put_namespace(name, labels)
        self.masks = NodeMasks(self.nodes, self.index)

    def place(self, name: str) -> None:
        pod = random_objects.pod(self.rng, name)
        pod["spec"]["nodeName"] = self.rng.choice((*(node["metadata"]["name"] for node in self.nodes), "elsewhere"))
        self.placed[name] = pod
        self.index.put(pod)

    def step(self, number: int) -> None:
        kind = self.rng.choice(("place", "place", "delete", "end", "gone", "label", "node"))
        name = self.rng.choice(sorted(self.placed)) if self.placed else None
        if kind == "place" or name is None:
            self.place(f"later-{number}")
        elif kind == "node":
            position = self.rng.randrange(len(self.nodes))
            self.nodes[position] = random_objects.node(self.rng, f"fake-{position}")
            self.masks.node_changed(position, self.nodes[position])
        elif kind == "gone":
            self.index.remove(self.placed.pop(name))
        else:
            self.change(name, kind)

    def change(self, name: str, kind: str) -> None:
        pod = self.placed[name] = copy.deepcopy(self.placed[name])
        if kind == "delete":
            pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        elif kind == "end":
            pod["status"] = {"phase": self.rng.choice(("Succeeded", "Failed"))}
        else:
            pod["metadata"]["labels"]["app"] = self.rng.choice("xyz")
        self.index.put(pod)

    def check_mask(self, pod: Object) -> None:
        expected = [
            naive.allowed(pod, node, self.nodes, list(self.placed.values()), random_objects.NAMESPACES)
            for node in self.nodes
        ]
        rule = rule_of(pod, self.index)
        assert self.masks.mask(rule).tolist() == expected
        reasons = self.masks.explain(rule)
        assert sum(count for _, count in reasons) == expected.count(False)


@given(rng, st.integers(1, 9), st.integers(0, 15), st.integers(0, 8))
@settings(max_examples=150)
def test_masks_equal_the_reference_after_changes(rng: Random, nodes: int, placed: int, steps: int):
    cluster = Cluster(rng, nodes)
    for number in range(placed):
        cluster.place(f"pod-{number}")
    waiting = [random_objects.pod(rng, f"waiting-{number}", demands=3) for number in range(3)]
    for number in range(steps + 1):
        for pod in waiting:
            cluster.check_mask(pod)
        cluster.step(number)


@given(rng)
@settings(max_examples=30)
def test_masks_that_missed_changes_are_computed_again(rng: Random):
    previous, pod_index_module.LOG_KEPT = pod_index_module.LOG_KEPT, 2
    try:
        cluster = Cluster(rng, 4)
        pod = random_objects.pod(rng, "waiting", demands=3)
        for number in range(12):
            cluster.step(number)
            if number % 5 == 0:
                cluster.check_mask(pod)
    finally:
        pod_index_module.LOG_KEPT = previous


@given(rng)
@settings(max_examples=30)
def test_rule_does_not_depend_on_the_order_of_its_terms(rng: Random):
    pod = random_objects.pod(rng, "one", demands=9)
    other = copy.deepcopy(pod)
    other["metadata"]["name"] = "other"
    spec = other["spec"]
    for terms in (
        spec.get("tolerations"), spec.get("topologySpreadConstraints"),
        naive.terms(other, "podAffinity"), naive.terms(other, "podAntiAffinity"),
    ):  # fmt: skip
        if terms:
            terms.reverse()
            terms.append(terms[0])
    assert rule_of(other) == rule_of(pod)
    assert rule_of(other).name == rule_of(pod).name


def node(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}, "spec": {}}


def pod_named(name: str = "pod", **spec: object) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": name}}
    return {"metadata": metadata, "spec": {"containers": [], **spec}}


def anti_affinity(selector: Object, key: str = "zone") -> Object:
    term = {"topologyKey": key, "labelSelector": selector}
    return {"podAntiAffinity": {random_objects.REQUIRED: [term]}}


def test_pods_with_own_labels_share_a_rule_until_one_is_repelled():
    index = PodIndex()
    one, other = pod_named("one"), pod_named("other")
    assert rule_of(one, index) == rule_of(other, index)
    assert not rule_of(one, index).is_live
    guard = pod_named("guard", affinity=anti_affinity({"matchLabels": {"app": "one"}}), nodeName="a")
    new = index.put(guard)
    assert len(new) == 1
    assert rule_of(one, index).repelled_by == new
    assert rule_of(one, index).is_live
    assert rule_of(other, index) == rule_of(pod_named("third"), index)
    masks = NodeMasks([node("a", zone="1"), node("b", zone="1"), node("c", zone="2"), node("d")], index)
    assert masks.mask(rule_of(one, index)).tolist() == [False, False, True, True]
    assert masks.mask(rule_of(other, index)).all()


def test_anti_affinity_is_removed_with_the_last_pod_that_has_it():
    index = PodIndex()
    first, second = (
        pod_named(name, affinity=anti_affinity({"matchLabels": {"app": "one"}})) for name in ("first", "second")
    )
    assert len(index.put(first)) == 1
    assert index.put(first) == index.put(second) == ()
    index.remove(first)
    assert len(index.repellers(pod_named("one"))) == 1
    index.remove(second)
    assert index.repellers(pod_named("one")) == ()
    assert len(index.put(first)) == 1


def test_rule_does_not_depend_on_the_pod_being_indexed():
    pod = pod_named(affinity=anti_affinity({"matchLabels": {"app": "pod"}}))
    index = PodIndex()
    before = rule_of(pod, index)
    index.put(pod)
    assert rule_of(pod, index) == before


def test_mask_is_cached_while_nothing_changes_for_the_rule():
    index = PodIndex()
    masks = NodeMasks([node("a"), node("b")], index)
    container = {"ports": [{"containerPort": 1, "hostPort": 80}]}
    rule = rule_of(pod_named(containers=[container]))
    before = masks.mask(rule)
    index.put(pod_named("without-port", nodeName="a"))
    assert masks.mask(rule) is before
    index.put(pod_named("with-port", nodeName="a", containers=[container]))
    assert masks.mask(rule).tolist() == [False, True]
    assert before.tolist() == [True, True]
    with pytest.raises(ValueError, match="read-only"):
        before[0] = False


def test_bound_pod_counts_before_its_node_name_is_seen():
    index = PodIndex()
    container = {"ports": [{"containerPort": 1, "hostPort": 80}]}
    bound = pod_named("bound", containers=[container])
    index.assume(bound, "a")
    masks = NodeMasks([node("a"), node("b")], index)
    assert masks.mask(rule_of(pod_named(containers=[container]))).tolist() == [False, True]
    index.put(bound)  # its status has changed
    assert masks.mask(rule_of(pod_named(containers=[container]))).tolist() == [False, True]
    index.forget_assumed(bound)
    assert masks.mask(rule_of(pod_named(containers=[container]))).tolist() == [True, True]


def test_only_changed_nodes_are_checked_again(monkeypatch: pytest.MonkeyPatch):
    nodes = [node(f"n{number}", zone=str(number % 3)) for number in range(30)]
    masks = NodeMasks(nodes)
    rule = rule_of(pod_named(nodeSelector={"zone": "1"}))
    assert masks.mask(rule).sum() == 10
    looked_at: list[int] = []
    columns = masks_module.NodeColumns
    holds = columns.holds
    monkeypatch.setattr(
        columns,
        "holds",
        lambda self, required, positions: looked_at.extend(positions) or holds(self, required, positions),
    )
    assert not masks.node_changed(0, {**nodes[0], "status": {"heartbeat": 1}})
    assert masks.node_changed(7, node("n7", zone="2"))
    assert np.flatnonzero(masks.mask(rule)).tolist() == [1, 4, *range(10, 30, 3)]
    assert looked_at == [7]


def test_node_cannot_change_its_position():
    masks = NodeMasks([node("a"), node("b")])
    with pytest.raises(ValueError, match="keeps its position"):
        masks.node_changed(0, node("b"))


def test_pods_keep_their_nodes_when_the_list_of_nodes_changes():
    index = PodIndex()
    container = {"ports": [{"containerPort": 1, "hostPort": 80}]}
    index.put(pod_named("on-b", nodeName="b", containers=[container]))
    index.put(pod_named("on-c", nodeName="c", containers=[container]))
    rule = rule_of(pod_named(containers=[container]))
    masks = NodeMasks([node("a"), node("b")], index)
    assert masks.mask(rule).tolist() == [True, False]
    assert masks.with_nodes([node("b"), node("a"), node("c"), node("d")]).mask(rule).tolist() == [
        False,
        True,
        False,
        True,
    ]


def test_cached_masks_are_evicted_and_computed_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(masks_module, "MAX_MASKS", 3)
    monkeypatch.setattr("gpusquad.engines.kubernetes.filters.static.MAX_MASKS", 3)
    monkeypatch.setattr("gpusquad.engines.kubernetes.filters.pod_counts.MAX_COUNTS", 2)
    masks = NodeMasks([node("a", zone="0"), node("b", zone="1")])
    for _ in range(2):
        for zone in range(8):
            ports = [{"ports": [{"containerPort": 1, "hostPort": 80 + zone}]}]
            rule = rule_of(pod_named(nodeSelector={"zone": str(zone)}, containers=ports))
            assert masks.mask(rule).tolist() == [zone == 0, zone == 1]


def test_each_node_counts_for_one_reason():
    nodes = [
        node("a"), node("b", zone="1"), node("c", zone="1"),
        {**node("d"), "spec": {"unschedulable": True}},
        {**node("e"), "spec": {"taints": [{"key": "x", "value": "y", "effect": "NoSchedule"}], "unschedulable": False}},
    ]  # fmt: skip
    index = PodIndex()
    port = [{"ports": [{"containerPort": 1, "hostPort": 80}]}]
    index.put(pod_named("other", nodeName="b", containers=port))
    assert explain(rule_of(pod_named(nodeSelector={"zone": "1"}, containers=port)), nodes, index) == [
        ("a host port of the pod is in use", 1),
        ("cordoned (unschedulable)", 1),
        ("excluded by its node selector or node affinity", 1),
        ("taint x=y:NoSchedule not tolerated", 1),
    ]


def test_mask_without_nodes_is_empty():
    assert NodeMasks([]).mask(PlacementRule()).tolist() == []
    assert NodeMasks([]).explain(rule_of(random_objects.pod(Random(1), "pod", demands=9))) == []
