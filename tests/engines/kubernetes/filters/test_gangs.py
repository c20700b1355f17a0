"""A gang that is not refused can be placed at once by masks and the bound of each node, and every pod of it may be
where it is."""

from __future__ import annotations

import copy
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.filters import (
    NodeMasks,
    PodIndex,
    Storage,
    UnsupportedRule,
    check_gang,
    check_roles,
    rule_of,
    together,
)
from tests.engines.kubernetes.filters import made, naive
from tests.engines.kubernetes.filters.made import HOSTNAME, REQUIRED, ZONE, Object

ITSELF = {"matchLabels": {"app": "x"}}
OTHERS = {"matchLabels": {"app": "y"}}


@given(st.integers(0, 2**32).map(Random), st.integers(1, 4))
@settings(max_examples=300)
def test_a_gang_that_is_not_refused_is_placed_rightly_in_any_order(dice: Random, tasks: int):
    nodes = [made.node(dice, f"fake-{number}") for number in range(dice.randint(1, 8))]
    index, placed = PodIndex(), []
    for number in range(dice.randint(0, 6)):
        pod = made.pod(dice, f"placed-{number}")
        pod["spec"]["nodeName"] = dice.choice(nodes)["metadata"]["name"]
        placed.append(pod)
        index.put(pod)
    for name, labels in made.NAMESPACES.items():
        index.put_namespace(name, labels)
    pod = made.pod(dice, "task", demands=4)
    rule = rule_of(pod, index)
    assume(check_gang(rule, tasks) is None)
    mask = NodeMasks(nodes, index).mask(rule)
    room = [node for node, ok in zip(nodes, mask, strict=True) if ok for _ in range(rule.most_per_node or tasks)]
    for number, node in enumerate(dice.sample(room, min(tasks, len(room)))):
        assert naive.allowed(pod, node, nodes, placed, made.NAMESPACES)
        task = copy.deepcopy(pod)
        task["metadata"]["name"], task["spec"]["nodeName"] = f"task-{number}", node["metadata"]["name"]
        placed.append(task)


def pod(name: str = "pod", app: str = "x", **spec: object) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": app, "number": name}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}], **spec}}


def affinity(side: str, key: str, selector: Object) -> Object:
    return {"affinity": {side: {REQUIRED: [{"topologyKey": key, "labelSelector": selector}]}}}


def spread(key: str, selector: Object, skew: int = 1) -> Object:
    made_one = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [made_one]}


def ports(port: int = 80) -> Object:
    return {"containers": [{"name": "main", "ports": [{"containerPort": port, "hostPort": port}]}]}


@pytest.mark.parametrize(
    ("spec", "most", "refused"),
    [
        ({}, 0, ""),
        (ports(), 1, ""),
        (affinity("podAntiAffinity", HOSTNAME, ITSELF), 1, ""),
        (affinity("podAntiAffinity", HOSTNAME, OTHERS), 0, ""),
        (
            affinity("podAntiAffinity", ZONE, ITSELF),
            0,
            "anti-affinity between tasks of one gang by topology.kubernetes.io/zone is not supported",
        ),
        (affinity("podAntiAffinity", ZONE, OTHERS), 0, ""),
        (affinity("podAffinity", ZONE, OTHERS), 0, ""),
        (affinity("podAffinity", ZONE, ITSELF), 0, "affinity between tasks of one gang is not supported"),
        (affinity("podAffinity", HOSTNAME, ITSELF), 0, "affinity between tasks of one gang is not supported"),
        (spread(HOSTNAME, ITSELF, 3), 1, ""),
        (spread(HOSTNAME, OTHERS), 0, ""),
        (spread(ZONE, ITSELF), 0, "spreading tasks of one gang over topology.kubernetes.io/zone is not supported"),
        (spread(ZONE, OTHERS), 0, ""),
    ],
)
def test_what_tasks_of_one_gang_may_demand_of_each_other(spec: Object, most: int, refused: str):
    rule = rule_of(pod(**spec))
    assert rule.most_per_node == most
    assert check_gang(rule, 1) is None
    problem = check_gang(rule, 2)
    assert refused in str(problem) if refused else problem is None


def test_a_claim_for_one_pod_is_not_for_a_gang():
    storage = Storage()
    claim = {"metadata": {"namespace": "default", "name": "data"}, "spec": {"accessModes": ["ReadWriteOncePod"]}}
    storage.put("claims", claim)
    rule = rule_of(pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]))
    assert check_gang(rule, 1, storage) is None
    assert "for one pod, not for 2" in str(check_gang(rule, 2, storage))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (affinity("podAntiAffinity", HOSTNAME, OTHERS), "podAntiAffinity"),
        (affinity("podAffinity", HOSTNAME, OTHERS), "podAffinity"),
        (spread(ZONE, OTHERS), "topologySpreadConstraints"),
        (ports(), "ports"),
    ],
)
def test_roles_that_look_at_each_other_are_refused(spec: Object, field: str):
    one, other = pod("one", **spec), pod("other", "y", **ports())
    assert field in str(check_roles([other, one]))
    assert check_roles([one, pod("third", "z", **ports(81))]) is None
    assert check_roles([one]) is None


def test_pods_of_one_role_share_the_strictest_rule():
    """Here a guard keeps away only the one with number 1."""
    index = PodIndex()
    index.put(
        pod("guard", "g", nodeName="a", **affinity("podAntiAffinity", HOSTNAME, {"matchLabels": {"number": "1"}}))
    )
    rules = [rule_of(pod(str(number)), index) for number in range(3)]
    assert rules[0] == rules[2] != rules[1]
    assert together(rules) == rules[1]
    assert together([rules[0]] * 3) == rules[0]


def test_pods_that_demand_different_things_are_no_role():
    with pytest.raises(UnsupportedRule, match="different nodes"):
        together([rule_of(pod()), rule_of(pod(nodeSelector={"a": "b"}))])
    near = affinity("podAffinity", HOSTNAME, {"matchLabels": {"number": "1"}})
    with pytest.raises(UnsupportedRule, match="only some"):
        together([rule_of(pod(str(number), **near)) for number in range(2)])
