"""Masks against the plain reference, while the cluster changes under them."""

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
from tests.engines.kubernetes.filters import made, naive

Object = made.Object
dice = st.integers(0, 2**32).map(Random)


class Cluster:
    """Random, and told to the real thing step by step."""

    def __init__(self, dice: Random, nodes: int) -> None:
        self.dice = dice
        self.nodes = [made.node(dice, f"fake-{number}") for number in range(nodes)]
        self.placed: dict[str, Object] = {}
        self.index = PodIndex()
        for name, labels in made.NAMESPACES.items():
            self.index.put_namespace(name, labels)
        self.masks = NodeMasks(self.nodes, self.index)

    def place(self, name: str) -> None:
        pod = made.pod(self.dice, name)
        pod["spec"]["nodeName"] = self.dice.choice((*(node["metadata"]["name"] for node in self.nodes), "elsewhere"))
        self.placed[name] = pod
        self.index.put(pod)

    def step(self, number: int) -> None:
        what = self.dice.choice(("place", "place", "delete", "end", "gone", "label", "node"))
        known = self.dice.choice(sorted(self.placed)) if self.placed else None
        if what == "place" or known is None:
            self.place(f"later-{number}")
        elif what == "node":
            at = self.dice.randrange(len(self.nodes))
            self.nodes[at] = made.node(self.dice, f"fake-{at}")
            self.masks.node_changed(at, self.nodes[at])
        elif what == "gone":
            self.index.remove(self.placed.pop(known))
        else:
            self.change(known, what)

    def change(self, known: str, what: str) -> None:
        pod = self.placed[known] = copy.deepcopy(self.placed[known])
        if what == "delete":
            pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        elif what == "end":
            pod["status"] = {"phase": self.dice.choice(("Succeeded", "Failed"))}
        else:
            pod["metadata"]["labels"]["app"] = self.dice.choice("xyz")
        self.index.put(pod)

    def must_agree(self, pod: Object) -> None:
        expected = [
            naive.allowed(pod, node, self.nodes, list(self.placed.values()), made.NAMESPACES) for node in self.nodes
        ]
        rule = rule_of(pod, self.index)
        assert self.masks.mask(rule).tolist() == expected
        reasons = self.masks.explain(rule)
        assert sum(count for _, count in reasons) == expected.count(False)


@given(dice, st.integers(1, 9), st.integers(0, 15), st.integers(0, 8))
@settings(max_examples=150)
def test_masks_are_those_of_the_reference_also_after_changes(dice: Random, nodes: int, placed: int, steps: int):
    cluster = Cluster(dice, nodes)
    for number in range(placed):
        cluster.place(f"pod-{number}")
    waiting = [made.pod(dice, f"waiting-{number}", demands=3) for number in range(3)]
    for number in range(steps + 1):
        for pod in waiting:
            cluster.must_agree(pod)
        cluster.step(number)


@given(dice)
@settings(max_examples=30)
def test_who_fell_behind_counts_anew(dice: Random):
    kept, pod_index_module.LOG_KEPT = pod_index_module.LOG_KEPT, 2
    try:
        cluster = Cluster(dice, 4)
        pod = made.pod(dice, "waiting", demands=3)
        for number in range(12):
            cluster.step(number)
            if number % 5 == 0:
                cluster.must_agree(pod)
    finally:
        pod_index_module.LOG_KEPT = kept


@given(dice)
@settings(max_examples=30)
def test_a_rule_is_the_same_whatever_the_order_in_which_it_is_written(dice: Random):
    pod = made.pod(dice, "one", demands=9)
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


def plain(name: str = "pod", **spec: object) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": name}}
    return {"metadata": metadata, "spec": {"containers": [], **spec}}


def repelling(selector: Object, key: str = "zone") -> Object:
    term = {"topologyKey": key, "labelSelector": selector}
    return {"podAntiAffinity": {made.REQUIRED: [term]}}


def test_pods_with_labels_of_their_own_share_a_rule_until_somebody_keeps_one_of_them_away():
    index = PodIndex()
    one, other = plain("one"), plain("other")
    assert rule_of(one, index) == rule_of(other, index)
    assert not rule_of(one, index).is_live
    guard = plain("guard", affinity=repelling({"matchLabels": {"app": "one"}}), nodeName="a")
    new = index.put(guard)
    assert len(new) == 1
    assert rule_of(one, index).repelled_by == new
    assert rule_of(one, index).is_live
    assert rule_of(other, index) == rule_of(plain("third"), index)
    masks = NodeMasks([node("a", zone="1"), node("b", zone="1"), node("c", zone="2"), node("d")], index)
    assert masks.mask(rule_of(one, index)).tolist() == [False, False, True, True]
    assert masks.mask(rule_of(other, index)).all()


def test_anti_affinity_is_new_once_and_forgotten_with_the_last_who_says_it():
    index = PodIndex()
    first, second = (plain(name, affinity=repelling({"matchLabels": {"app": "one"}})) for name in ("first", "second"))
    assert len(index.put(first)) == 1
    assert index.put(first) == index.put(second) == ()
    index.remove(first)
    assert len(index.repellers(plain("one"))) == 1
    index.remove(second)
    assert index.repellers(plain("one")) == ()
    assert len(index.put(first)) == 1


def test_a_rule_does_not_depend_on_whether_the_pod_itself_is_known():
    pod = plain(affinity=repelling({"matchLabels": {"app": "pod"}}))
    index = PodIndex()
    before = rule_of(pod, index)
    index.put(pod)
    assert rule_of(pod, index) == before


def test_the_same_array_comes_back_while_nothing_changes_for_the_rule():
    index = PodIndex()
    masks = NodeMasks([node("a"), node("b")], index)
    taken = {"ports": [{"containerPort": 1, "hostPort": 80}]}
    rule = rule_of(plain(containers=[taken]))
    before = masks.mask(rule)
    index.put(plain("without-port", nodeName="a"))
    assert masks.mask(rule) is before
    index.put(plain("with-port", nodeName="a", containers=[taken]))
    assert masks.mask(rule).tolist() == [False, True]
    assert before.tolist() == [True, True]
    with pytest.raises(ValueError, match="read-only"):
        before[0] = False


def test_a_pod_that_was_just_bound_counts_before_it_says_so_itself():
    index = PodIndex()
    taken = {"ports": [{"containerPort": 1, "hostPort": 80}]}
    bound = plain("bound", containers=[taken])
    index.put(bound, node="a")
    masks = NodeMasks([node("a"), node("b")], index)
    assert masks.mask(rule_of(plain(containers=[taken]))).tolist() == [False, True]


def test_only_changed_nodes_are_looked_at_again(monkeypatch: pytest.MonkeyPatch):
    nodes = [node(f"n{number}", zone=str(number % 3)) for number in range(30)]
    masks = NodeMasks(nodes)
    rule = rule_of(plain(nodeSelector={"zone": "1"}))
    assert masks.mask(rule).sum() == 10
    looked_at: list[int] = []
    columns = masks_module.NodeColumns
    holds = columns.holds
    monkeypatch.setattr(columns, "holds", lambda self, wanted, at: looked_at.extend(at) or holds(self, wanted, at))
    assert not masks.node_changed(0, {**nodes[0], "status": {"heartbeat": 1}})
    assert masks.node_changed(7, node("n7", zone="2"))
    assert np.flatnonzero(masks.mask(rule)).tolist() == [1, 4, *range(10, 30, 3)]
    assert looked_at == [7]


def test_a_node_keeps_its_position():
    masks = NodeMasks([node("a"), node("b")])
    with pytest.raises(ValueError, match="keeps its position"):
        masks.node_changed(0, node("b"))


def test_pods_stay_where_they_are_when_nodes_come_and_go():
    index = PodIndex()
    taken = {"ports": [{"containerPort": 1, "hostPort": 80}]}
    index.put(plain("on-b", nodeName="b", containers=[taken]))
    index.put(plain("on-c", nodeName="c", containers=[taken]))
    rule = rule_of(plain(containers=[taken]))
    masks = NodeMasks([node("a"), node("b")], index)
    assert masks.mask(rule).tolist() == [True, False]
    assert masks.with_nodes([node("b"), node("a"), node("c"), node("d")]).mask(rule).tolist() == [
        False,
        True,
        False,
        True,
    ]


def test_old_answers_make_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(masks_module, "MAX_MASKS", 3)
    monkeypatch.setattr("gpusquad.engines.kubernetes.filters.static.MAX_MASKS", 3)
    monkeypatch.setattr("gpusquad.engines.kubernetes.filters.pod_counts.MAX_COUNTS", 2)
    masks = NodeMasks([node("a", zone="0"), node("b", zone="1")])
    for _ in range(2):
        for zone in range(8):
            ports = [{"ports": [{"containerPort": 1, "hostPort": 80 + zone}]}]
            rule = rule_of(plain(nodeSelector={"zone": str(zone)}, containers=ports))
            assert masks.mask(rule).tolist() == [zone == 0, zone == 1]


def test_reasons_are_counted_once_a_node_and_name_the_taint():
    nodes = [
        node("a"), node("b", zone="1"), node("c", zone="1"),
        {**node("d"), "spec": {"unschedulable": True}},
        {**node("e"), "spec": {"taints": [{"key": "x", "value": "y", "effect": "NoSchedule"}], "unschedulable": False}},
    ]  # fmt: skip
    index = PodIndex()
    port = [{"ports": [{"containerPort": 1, "hostPort": 80}]}]
    index.put(plain("other", nodeName="b", containers=port))
    assert explain(rule_of(plain(nodeSelector={"zone": "1"}, containers=port)), nodes, index) == [
        ("a host port of the pod is in use", 1),
        ("cordoned (unschedulable)", 1),
        ("excluded by its node selector or node affinity", 1),
        ("taint x=y:NoSchedule not tolerated", 1),
    ]


def test_no_nodes_no_mask():
    assert NodeMasks([]).mask(PlacementRule()).tolist() == []
    assert NodeMasks([]).explain(rule_of(made.pod(Random(1), "pod", demands=9))) == []
