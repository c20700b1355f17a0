"""What is read from a pod, and what is refused."""

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
from tests.engines.kubernetes.filters.made import REQUIRED, Object


def pod(**spec: object) -> Object:
    metadata = {"name": "pod", "namespace": "default", "uid": "1", "labels": {"app": "x"}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}], **spec}}


def term(**more: object) -> Object:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "y"}}, **more}


def apart(**more: object) -> Object:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term(**more)]}}}


def on_nodes(*more: Object, **one: object) -> Object:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [one, *more]}}}}


REFUSED = {
    "tolerations that compare": {"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]},
    "node affinity": on_nodes(matchExpressions=[{"key": "a", "operator": "Near"}]),
    "node fields": on_nodes(matchFields=[{"key": "spec.x", "operator": "In", "values": ["a"]}]),
    "many names": on_nodes(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]),
    "selector": apart(labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
    "selector without values": apart(labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
    "spread": {"topologySpreadConstraints": [{"topologyKey": "a", "maxSkew": 1, "whenUnsatisfiable": "Perhaps"}]},
    "policy": {"topologySpreadConstraints": [{"topologyKey": "a", "maxSkew": 1, "nodeTaintsPolicy": "Perhaps"}]},
    "old disks": {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]},
    "resource claims": {"resourceClaims": [{"name": "gpu"}]},
    "user namespaces": {"hostNetwork": True, "hostUsers": False},
    "mount options": {"containers": [{"volumeMounts": [{"name": "v", "bindMountOptions": ["noexec"]}]}]},
    "restarts": {"initContainers": [{"name": "main", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
}  # fmt: skip


@pytest.mark.parametrize("spec", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_supported_is_refused_with_a_cure(spec: Object):
    with pytest.raises(UnsupportedRule) as refused:
        rule_of(pod(**spec))
    assert isinstance(refused.value, Invalid)
    assert refused.value.cure


def test_wishes_are_left_out():
    wishes = {
        "affinity": {
            side: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
            for side in ("nodeAffinity", "podAffinity", "podAntiAffinity")
        },
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "PreferNoSchedule"}],
        "topologySpreadConstraints": [{"topologyKey": "a", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}],
    }
    assert rule_of(pod(**wishes)) == PlacementRule()
    node: Object = {"metadata": {"name": "a"}, "spec": {"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}}
    assert taints_of(node) == ()


def test_the_name_is_the_same_in_every_process():
    """It is kept with jobs, which outlive the process: change it only together with them."""
    rule = rule_of(pod(nodeSelector={"zone": "a"}, **apart()))
    assert rule.name == "d6fde57c3052dbc561b3"
    assert rule_of(pod(nodeSelector={"zone": "b"}, **apart())).name != rule.name


def test_what_a_toleration_covers():
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
def test_numbers_in_labels_are_read_as_kubernetes_reads_them(text: str | None, number: int | None):
    assert whole(text) == number


def test_terms_that_cannot_be_read_select_no_node():
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


def test_no_selector_selects_nothing_and_an_empty_one_everything():
    assert read_selector(None, "here") is NOTHING
    assert not NOTHING.matches({})
    assert read_selector({}, "here") == EVERYTHING
    assert EVERYTHING.matches({"a": "b"})
    assert NOTHING.with_requirements([Requirement("a", "Exists")]) is NOTHING
    assert Selector((Requirement("a", "In", ("1", "2")), Requirement("b", "In", ("1",)))).anchor() == Requirement(
        "b", "In", ("1",)
    )


def test_label_keys_that_the_server_has_written_into_the_selector_stay_as_they_were():
    """The label was x when the pod was made, and is another now."""
    merged = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["old"]}]}
    [kept] = rule_of(pod(**apart(matchLabelKeys=["app"], labelSelector=merged))).apart
    assert kept.selector == read_selector(merged, "here")
    [added] = rule_of(pod(**apart(matchLabelKeys=["app", "absent"], labelSelector={}))).apart
    assert added.selector == read_selector({"matchLabels": {"app": "x"}}, "here")
    [not_in] = rule_of(pod(**apart(mismatchLabelKeys=["app"], labelSelector={}))).apart
    assert not not_in.selector.matches({"app": "x"})
    assert not_in.selector.matches({"app": "y"})
    [nothing] = rule_of(pod(**apart(matchLabelKeys=["app"], labelSelector=None))).apart
    assert nothing.selector == NOTHING


def test_only_containers_that_last_hold_ports():
    def container(port: int, **more: object) -> Object:
        return {"ports": [{"containerPort": 1, "hostPort": port}, {"containerPort": 2}], **more}

    found = ports_of(
        pod(containers=[container(1)], initContainers=[container(2), container(3, restartPolicy="Always")])
    )
    assert found == (HostPort(1), HostPort(3))


def test_namespaces_that_change_their_labels_change_who_is_met():
    index = PodIndex()
    index.put_namespace("default", {"team": "one"})
    index.put_namespace("other", {"team": "two"})
    index.put({**pod(nodeName="a"), "metadata": {"name": "y", "namespace": "other", "labels": {"app": "y"}}})
    nodes = [{"metadata": {"name": "a", "labels": {"zone": "1"}}}, {"metadata": {"name": "b", "labels": {"zone": "2"}}}]
    masks = NodeMasks(nodes, index)
    rule = rule_of(pod(**apart(namespaceSelector={"matchLabels": {"team": "one"}})), index)
    assert masks.mask(rule).tolist() == [True, True]
    index.put_namespace("other", {"team": "one"})
    assert masks.mask(rule).tolist() == [False, True]
    index.put_namespace("other", None)
    assert masks.mask(rule).tolist() == [True, True]


def test_a_pod_that_others_keep_away_by_its_namespace():
    index = PodIndex()
    index.put_namespace("default", {"team": "one"})
    everywhere = apart(namespaceSelector={"matchLabels": {"team": "one"}}, labelSelector={})
    index.put({**pod(nodeName="a", **everywhere), "metadata": {"name": "guard", "namespace": "other", "labels": {}}})
    assert rule_of(pod(), index).repelled_by
    index.put_namespace("default", {"team": "two"})
    assert not rule_of(pod(), index).repelled_by


def test_anti_affinity_that_cannot_be_read_keeps_nobody_away():
    index = PodIndex()
    strange = apart(labelSelector={"matchExpressions": [{"key": "a", "operator": "Near"}]})
    assert index.put(pod(nodeName="a", **strange)) == ()
    assert index.repellers(pod()) == ()
