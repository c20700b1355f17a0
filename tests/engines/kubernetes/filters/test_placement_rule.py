"""Tests of the placement rule read from a pod, and of refused rules."""

from __future__ import annotations

import pytest

from gpusquad.engines.kubernetes.filters import NodeMasks, PlacementRule, PodIndex, UnsupportedRule, rule_of
from gpusquad.engines.kubernetes.filters.node_affinity import choice_of_pod
from gpusquad.engines.kubernetes.filters.ports import HostPort, ports_of
from gpusquad.engines.kubernetes.filters.selectors import (
    EVERYTHING,
    NOTHING,
    Requirement,
    Selector,
    read_selector,
    whole,
)
from gpusquad.engines.kubernetes.filters.taints import Taint, taints_of, tolerates, tolerations_of
from gpusquad.model.errors import Invalid
from tests.engines.kubernetes.filters.random_objects import REQUIRED, Object


def pod(**spec: object) -> Object:
    metadata = {"name": "pod", "namespace": "default", "uid": "1", "labels": {"app": "x"}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}], **spec}}


def term(**more: object) -> Object:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "y"}}, **more}


def anti_affinity(**more: object) -> Object:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term(**more)]}}}


def on_nodes(*more: Object, **first: object) -> Object:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [first, *more]}}}}


REFUSED = {
    "tolerations that compare": {"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]},
    "node affinity": on_nodes(matchExpressions=[{"key": "a", "operator": "Near"}]),
    "node fields": on_nodes(matchFields=[{"key": "spec.x", "operator": "In", "values": ["a"]}]),
    "many names": on_nodes(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]),
    "selector": anti_affinity(labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
    "selector without values": anti_affinity(labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
    "spread": {"topologySpreadConstraints": [{"topologyKey": "a", "maxSkew": 1, "whenUnsatisfiable": "Perhaps"}]},
    "policy": {"topologySpreadConstraints": [{"topologyKey": "a", "maxSkew": 1, "nodeTaintsPolicy": "Perhaps"}]},
    "old disks": {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]},
    "resource claims": {"resourceClaims": [{"name": "gpu"}]},
    "user namespaces": {"hostNetwork": True, "hostUsers": False},
    "mount options": {"containers": [{"volumeMounts": [{"name": "v", "bindMountOptions": ["noexec"]}]}]},
    "restarts": {"initContainers": [{"name": "main", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
}  # fmt: skip


@pytest.mark.parametrize("spec", REFUSED.values(), ids=REFUSED.keys())
def test_unsupported_rule_is_refused_with_a_cure(spec: Object):
    with pytest.raises(UnsupportedRule) as refused:
        rule_of(pod(**spec))
    assert isinstance(refused.value, Invalid)
    assert refused.value.cure


def test_preferences_are_ignored():
    preferences = {
        "affinity": {
            side: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
            for side in ("nodeAffinity", "podAffinity", "podAntiAffinity")
        },
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "PreferNoSchedule"}],
        "topologySpreadConstraints": [{"topologyKey": "a", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}],
    }
    assert rule_of(pod(**preferences)) == PlacementRule()
    node: Object = {"metadata": {"name": "a"}, "spec": {"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}}
    assert taints_of(node) == ()


def test_rule_name_is_stable():
    """The name is stored with jobs, so it must not change between versions without a migration."""
    rule = rule_of(pod(nodeSelector={"zone": "a"}, **anti_affinity()))
    assert rule.name == "d6fde57c3052dbc561b3"
    assert rule_of(pod(nodeSelector={"zone": "b"}, **anti_affinity())).name != rule.name


def test_toleration_covers_matching_taints():
    tolerations = tolerations_of(
        pod(
            tolerations=[
                {"key": "any-value", "operator": "Exists"},
                {"key": "value", "value": "v", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "empty"},
            ]
        )
    )
    assert tolerates(tolerations, Taint("any-value", "what", "NoSchedule"))
    assert tolerates(tolerations, Taint("value", "v", "NoExecute"))
    assert not tolerates(tolerations, Taint("value", "v", "NoSchedule"))
    assert not tolerates(tolerations, Taint("value", "w", "NoExecute"))
    assert tolerates(tolerations, Taint("empty", "", "NoSchedule"))
    assert not tolerates(tolerations, Taint("empty", "full", "NoSchedule"))
    assert tolerates(tolerations_of(pod(tolerations=[{"operator": "Exists"}])), Taint("all", "x", "NoExecute"))


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12), ("-3", -3), ("+4", 4), ("007", 7), ("", None), (" 1", None), ("1_0", None), ("१", None), (None, None),
     (str(2**63 - 1), 2**63 - 1), (str(2**63), None), (str(-(2**63)), -(2**63)), ("9" * 5000, None)],
)  # fmt: skip
def test_numbers_in_labels_are_parsed_as_in_kubernetes(text: str | None, number: int | None):
    assert whole(text) == number


def test_unreadable_terms_select_no_node():
    def choice(expression: Object):
        return choice_of_pod(pod(**on_nodes({}, matchExpressions=[expression])))

    unreadable = (
        {"key": "a", "operator": "NotIn", "values": ["not a value of a label"]},
        {"key": "a", "operator": "Gt", "values": ["few"]},
        {"key": "a", "operator": "Lt", "values": ["1", "2"]},
        {"key": "a", "operator": "Gt", "values": ["-1"]},
        {"key": "a", "operator": "Exists", "values": ["1"]},
        {"key": "a", "operator": "In"},
    )
    assert {choice(expression).terms for expression in unreadable} == {()}
    assert not choice(unreadable[0]).allows({"a": "1"}, "node")
    readable = choice({"key": "a", "operator": "NotIn", "values": ["v" * 63, ""]})
    assert readable.allows({"a": "1"}, "node")
    assert readable.allows({}, "node")
    assert not readable.allows({"a": ""}, "node")


def test_missing_selector_selects_nothing_and_an_empty_one_everything():
    assert read_selector(None, "here") is NOTHING
    assert not NOTHING.matches({})
    assert read_selector({}, "here") == EVERYTHING
    assert EVERYTHING.matches({"a": "b"})
    assert NOTHING.with_requirements([Requirement("a", "Exists")]) is NOTHING
    assert Selector((Requirement("a", "In", ("1", "2")), Requirement("b", "In", ("1",)))).anchor() == Requirement(
        "b", "In", ("1",)
    )


def test_label_keys_merged_by_the_server_are_kept():
    """The label had another value when the pod was created."""
    merged = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["old"]}]}
    [kept] = rule_of(pod(**anti_affinity(matchLabelKeys=["app"], labelSelector=merged))).apart
    assert kept.selector == read_selector(merged, "here")
    [added] = rule_of(pod(**anti_affinity(matchLabelKeys=["app", "absent"], labelSelector={}))).apart
    assert added.selector == read_selector({"matchLabels": {"app": "x"}}, "here")
    [not_in] = rule_of(pod(**anti_affinity(mismatchLabelKeys=["app"], labelSelector={}))).apart
    assert not not_in.selector.matches({"app": "x"})
    assert not_in.selector.matches({"app": "y"})
    [nothing] = rule_of(pod(**anti_affinity(matchLabelKeys=["app"], labelSelector=None))).apart
    assert nothing.selector == NOTHING


def test_only_long_running_containers_hold_ports():
    def container(port: int, **more: object) -> Object:
        return {"ports": [{"containerPort": 1, "hostPort": port}, {"containerPort": 2}], **more}

    found = ports_of(
        pod(containers=[container(1)], initContainers=[container(2), container(3, restartPolicy="Always")])
    )
    assert found == (HostPort(1), HostPort(3))


def test_namespace_label_change_changes_the_matched_pods():
    index = PodIndex()
    index.put_namespace("default", {"team": "one"})
    index.put_namespace("other", {"team": "two"})
    index.put({**pod(nodeName="a"), "metadata": {"name": "y", "namespace": "other", "labels": {"app": "y"}}})
    nodes = [{"metadata": {"name": "a", "labels": {"zone": "1"}}}, {"metadata": {"name": "b", "labels": {"zone": "2"}}}]
    masks = NodeMasks(nodes, index)
    rule = rule_of(pod(**anti_affinity(namespaceSelector={"matchLabels": {"team": "one"}})), index)
    assert masks.mask(rule).tolist() == [True, True]
    index.put_namespace("other", {"team": "one"})
    assert masks.mask(rule).tolist() == [False, True]
    index.put_namespace("other", None)
    assert masks.mask(rule).tolist() == [True, True]


def test_pod_is_repelled_by_its_namespace_labels():
    index = PodIndex()
    index.put_namespace("default", {"team": "one"})
    everywhere = anti_affinity(namespaceSelector={"matchLabels": {"team": "one"}}, labelSelector={})
    index.put({**pod(nodeName="a", **everywhere), "metadata": {"name": "guard", "namespace": "other", "labels": {}}})
    assert rule_of(pod(), index).repelled_by
    index.put_namespace("default", {"team": "two"})
    assert not rule_of(pod(), index).repelled_by


def test_unreadable_anti_affinity_repels_no_pod():
    index = PodIndex()
    unreadable = anti_affinity(labelSelector={"matchExpressions": [{"key": "a", "operator": "Near"}]})
    assert index.put(pod(nodeName="a", **unreadable)) == ()
    assert index.repellers(pod()) == ()
