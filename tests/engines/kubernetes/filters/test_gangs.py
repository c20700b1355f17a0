"""Tests of node filters for gangs: an accepted gang can be placed by its mask and the bound per node."""

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
from tests.engines.kubernetes.filters import naive, random_objects
from tests.engines.kubernetes.filters.random_objects import HOSTNAME, REQUIRED, ZONE, Object

OWN_APP = {"matchLabels": {"app": "x"}}
OTHER_APP = {"matchLabels": {"app": "y"}}


@given(st.integers(0, 2**32).map(Random), st.integers(1, 4))
@settings(max_examples=300)
def test_accepted_gang_is_placed_correctly_in_any_order(rng: Random, tasks: int):
    nodes = [random_objects.node(rng, f"fake-{number}") for number in range(rng.randint(1, 8))]
    index, placed = PodIndex(), []
    for number in range(rng.randint(0, 6)):
        pod = random_objects.pod(rng, f"placed-{number}")
        pod["spec"]["nodeName"] = rng.choice(nodes)["metadata"]["name"]
        placed.append(pod)
        index.put(pod)
    for name, labels in random_objects.NAMESPACES.items():
        index.put_namespace(name, labels)
    pod = random_objects.pod(rng, "task", demands=4)
    rule = rule_of(pod, index)
    assume(check_gang(rule, tasks) is None)
    mask = NodeMasks(nodes, index).mask(rule)
    free = [node for node, ok in zip(nodes, mask, strict=True) if ok for _ in range(rule.most_per_node or tasks)]
    for number, node in enumerate(rng.sample(free, min(tasks, len(free)))):
        assert naive.allowed(pod, node, nodes, placed, random_objects.NAMESPACES)
        task = copy.deepcopy(pod)
        task["metadata"]["name"], task["spec"]["nodeName"] = f"task-{number}", node["metadata"]["name"]
        placed.append(task)


def pod(name: str = "pod", app: str = "x", **spec: object) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": app, "number": name}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}], **spec}}


def affinity(side: str, key: str, selector: Object) -> Object:
    return {"affinity": {side: {REQUIRED: [{"topologyKey": key, "labelSelector": selector}]}}}


def spread(key: str, selector: Object, skew: int = 1) -> Object:
    constraint = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


def ports(port: int = 80) -> Object:
    return {"containers": [{"name": "main", "ports": [{"containerPort": port, "hostPort": port}]}]}


@pytest.mark.parametrize(
    ("spec", "most", "refused"),
    [
        ({}, 0, ""),
        (ports(), 1, ""),
        (affinity("podAntiAffinity", HOSTNAME, OWN_APP), 1, ""),
        (affinity("podAntiAffinity", HOSTNAME, OTHER_APP), 0, ""),
        (
            affinity("podAntiAffinity", ZONE, OWN_APP),
            0,
            "anti-affinity between tasks of one gang by topology.kubernetes.io/zone is not supported",
        ),
        (affinity("podAntiAffinity", ZONE, OTHER_APP), 0, ""),
        (affinity("podAffinity", ZONE, OTHER_APP), 0, ""),
        (affinity("podAffinity", ZONE, OWN_APP), 0, "affinity between tasks of one gang is not supported"),
        (affinity("podAffinity", HOSTNAME, OWN_APP), 0, "affinity between tasks of one gang is not supported"),
        (spread(HOSTNAME, OWN_APP, 3), 1, ""),
        (spread(HOSTNAME, OTHER_APP), 0, ""),
        (spread(ZONE, OWN_APP), 0, "spreading tasks of one gang over topology.kubernetes.io/zone is not supported"),
        (spread(ZONE, OTHER_APP), 0, ""),
    ],
)
def test_rules_between_tasks_of_a_gang_are_bounded_or_refused(spec: Object, most: int, refused: str):
    rule = rule_of(pod(**spec))
    assert rule.most_per_node == most
    assert check_gang(rule, 1) is None
    problem = check_gang(rule, 2)
    assert refused in str(problem) if refused else problem is None


def test_claim_for_one_pod_is_refused_for_a_gang():
    storage = Storage()
    claim = {"metadata": {"namespace": "default", "name": "data"}, "spec": {"accessModes": ["ReadWriteOncePod"]}}
    storage.put("claims", claim)
    rule = rule_of(pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]))
    assert check_gang(rule, 1, storage) is None
    assert "for one pod, not for 2" in str(check_gang(rule, 2, storage))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (affinity("podAntiAffinity", HOSTNAME, OTHER_APP), "podAntiAffinity"),
        (affinity("podAffinity", HOSTNAME, OTHER_APP), "podAffinity"),
        (spread(ZONE, OTHER_APP), "topologySpreadConstraints"),
        (ports(), "ports"),
    ],
)
def test_roles_with_rules_about_each_other_are_refused(spec: Object, field: str):
    first, second = pod("one", **spec), pod("other", "y", **ports())
    assert field in str(check_roles([second, first]))
    assert check_roles([first, pod("third", "z", **ports(81))]) is None
    assert check_roles([first]) is None


def test_pods_of_one_role_share_the_strictest_rule():
    """A guard pod repels only the pod with number 1."""
    index = PodIndex()
    index.put(
        pod("guard", "g", nodeName="a", **affinity("podAntiAffinity", HOSTNAME, {"matchLabels": {"number": "1"}}))
    )
    rules = [rule_of(pod(str(number)), index) for number in range(3)]
    assert rules[0] == rules[2] != rules[1]
    assert together(rules) == rules[1]
    assert together([rules[0]] * 3) == rules[0]


def test_pods_with_different_rules_cannot_share_a_role():
    with pytest.raises(UnsupportedRule, match="different nodes"):
        together([rule_of(pod()), rule_of(pod(nodeSelector={"a": "b"}))])
    near = affinity("podAffinity", HOSTNAME, {"matchLabels": {"number": "1"}})
    with pytest.raises(UnsupportedRule, match="only some"):
        together([rule_of(pod(str(number), **near)) for number in range(2)])
