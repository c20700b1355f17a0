"""Tests of claims and volumes: which nodes can use them, and what a pod waits for."""

from __future__ import annotations

import pytest

from gpusquad.engines.kubernetes.filters import NodeMasks, PodIndex, Storage, explain, rule_of
from tests.engines.kubernetes.filters.random_objects import Object

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def pod(*claims: str, name: str = "pod", **spec: object) -> Object:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    metadata = {"name": name, "namespace": "default", "uid": f"uid of {name}", "labels": {}}
    return {"metadata": metadata, "spec": {"containers": [], "volumes": volumes, **spec}}


def claim(name: str = "data", annotations: Object | None = None, owner: Object | None = None, **spec: object) -> Object:
    metadata: Object = {
        "name": name,
        "namespace": "default",
        "annotations": BOUND if annotations is None else annotations,
    }
    if owner is not None:
        metadata["ownerReferences"] = [{"controller": True, "uid": owner["metadata"]["uid"]}]
    return {"metadata": metadata, "spec": {"volumeName": f"volume-of-{name}", **spec}}


def volume(name: str = "data", labels: Object | None = None, **spec: object) -> Object:
    return {"metadata": {"name": f"volume-of-{name}", "labels": labels or {}}, "spec": spec}


def storage(*items: tuple[str, Object]) -> Storage:
    store = Storage()
    for section, item in items:
        store.put(section, item)  # pyright: ignore[reportArgumentType]
    return store


def nodes(*labels: Object) -> list[Object]:
    return [{"metadata": {"name": f"n{number}", "labels": node_labels}} for number, node_labels in enumerate(labels)]


def mask(pending: Object, node_list: list[Object], store: Storage, index: PodIndex | None = None) -> list[bool]:
    return NodeMasks(node_list, index, store).mask(rule_of(pending, index)).tolist()


LATE = ("classes", {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"})
WAITING = {
    "no claim": ([], "does not exist"),
    "not bound": ([("claims", claim(volumeName=""))], "waiting until PersistentVolumeClaim default/data is bound"),
    "not bound yet": ([("claims", claim(annotations={}))], "waiting until"),
    "bound late": ([("claims", claim(volumeName="", storageClassName="late")), LATE], "WaitForFirstConsumer"),
    "bound late, old way": (
        [("claims", claim(volumeName="", annotations={"volume.beta.kubernetes.io/storage-class": "late"})), LATE],
        "WaitForFirstConsumer",
    ),
    "bound to nothing": ([("claims", claim())], "bound to volume-of-data, which does not exist"),
    "lost": ([("claims", {**claim(), "status": {"phase": "Lost"}}), ("volumes", volume())], "lost its volume"),
    "old kind": ([("claims", claim()), ("volumes", volume(awsElasticBlockStore={}))], "awsElasticBlockStore"),
}


@pytest.mark.parametrize(("items", "reason"), WAITING.values(), ids=WAITING.keys())
def test_pod_waits_for_its_claim_with_a_reason(items: list[tuple[str, Object]], reason: str):
    store, node_list = storage(*items), nodes({}, {})
    rule = rule_of(pod("data"))
    masks = NodeMasks(node_list, None, store)
    assert not masks.mask(rule).any()
    assert reason in masks.waits_for(rule)
    assert explain(rule, node_list, None, store) == [(masks.waits_for(rule), 2)]


def test_claim_that_is_being_deleted_is_not_used():
    leaving = claim()
    leaving["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    rule = rule_of(pod("data"))
    assert "being deleted" in NodeMasks([], None, storage(("claims", leaving), ("volumes", volume()))).waits_for(rule)


def test_pod_is_allowed_where_its_bound_volume_is_accessible():
    node_list = nodes({"rack": "1"}, {"rack": "2"}, {})
    affinity = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]}]}
    }
    store = storage(("claims", claim()), ("volumes", volume(nodeAffinity=affinity)))
    masks = NodeMasks(node_list, None, store)
    rule = rule_of(pod("data"))
    assert masks.mask(rule).tolist() == [True, False, False]
    assert masks.waits_for(rule) == ""
    assert masks.explain(rule) == [("a volume of the pod is not accessible from there", 2)]
    assert masks.waits_for(rule_of(pod())) == ""
    store.drop("claims", claim())
    assert not masks.mask(rule).any()


def test_node_names_in_volume_affinity_are_ignored():
    affinity = {
        "required": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        }
    }
    store = storage(("claims", claim()), ("volumes", volume(nodeAffinity=affinity)))
    assert mask(pod("data"), nodes({}, {}), store) == [True, True]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({ZONE: "a"}, [True, False, True, True]),
        ({ZONE: "a__b"}, [True, True, True, True]),
        ({OLD_ZONE: "a"}, [True, False, True, True]),
        ({ZONE: "a__"}, [True, True, True, True]),
        ({"topology.kubernetes.io/region": "r"}, [False, False, True, False]),
    ],
)
def test_zone_labels_of_a_volume_restrict_nodes(labels: Object, expected: list[bool]):
    """A node without any zone label is allowed."""
    node_list = nodes({ZONE: "a"}, {ZONE: "b"}, {}, {ZONE: "a", OLD_ZONE: "a"})
    store = storage(("claims", claim()), ("volumes", volume(labels=labels)))
    assert mask(pod("data"), node_list, store) == expected


def test_claim_for_one_pod_is_free_when_that_pod_is_gone():
    store = storage(("claims", claim(accessModes=["ReadWriteOncePod"])), ("volumes", volume()))
    index, user = PodIndex(), pod("data", name="user", nodeName="n0")
    masks = NodeMasks(nodes({}, {}), index, store)
    rule = rule_of(pod("data"), index)
    assert masks.mask(rule).all()
    index.put(user)
    assert not masks.mask(rule).any()
    assert "another pod uses it" in masks.waits_for(rule)
    index.remove(user)
    assert masks.mask(rule).all()


def test_ephemeral_volume_needs_a_bound_claim_of_its_own_pod():
    pending = pod(volumes=[{"name": "scratch", "ephemeral": {}}])
    bound = volume("pod-scratch")
    own_claim = storage(("claims", claim("pod-scratch", owner=pending)), ("volumes", bound))
    foreign_claim = storage(("claims", claim("pod-scratch", owner=pod(name="other"))), ("volumes", bound))
    assert mask(pending, nodes({}), own_claim) == [True]
    assert mask(pending, nodes({}), foreign_claim) == [False]
    assert "not its own" in NodeMasks([], None, foreign_claim).waits_for(rule_of(pending))
    assert mask(pending, nodes({}), Storage()) == [False]


def csi(name: str, driver: str = "limited") -> list[tuple[str, Object]]:
    return [("claims", claim(name)), ("volumes", volume(name, csi={"driver": driver, "volumeHandle": name}))]


def csi_node(name: str, driver: str = "limited", **allocatable: int) -> tuple[str, Object]:
    return "csi_nodes", {
        "metadata": {"name": name},
        "spec": {"drivers": [{"name": driver, "allocatable": allocatable}]},
    }


def test_attached_volumes_are_limited_per_driver():
    store = storage(*csi("one"), *csi("two"), csi_node("n0", count=1), csi_node("n1", count=2), csi_node("n2"))
    index = PodIndex()
    for node in ("n0", "n1", "n2"):
        index.put(pod("one", name=f"user-{node}", nodeName=node))
    node_list = nodes({}, {}, {})
    assert mask(pod("two"), node_list, store, index) == [False, True, True]
    assert mask(pod("one"), node_list, store, index) == [True, True, True]  # already attached there
    assert mask(pod("one", "two"), node_list, store, index) == [False, True, True]
    source = {"persistentVolumeName": "volume-of-three"}
    attachment = {"metadata": {"name": "x"}, "spec": {"attacher": "limited", "nodeName": "n1", "source": source}}
    for section, item in (*csi("three"), ("attachments", attachment)):
        store.put(section, item)  # pyright: ignore[reportArgumentType]
    assert mask(pod("two"), node_list, store, index) == [False, False, True]


def test_unbound_claim_counts_for_the_driver_of_its_class():
    late = {**LATE[1], "provisioner": "limited"}
    unbound = claim("late", volumeName="", storageClassName="late")
    store = storage(*csi("one"), csi_node("n0", count=1), ("classes", late), ("claims", unbound))
    index = PodIndex()
    index.put(pod("late", "unknown", name="user", nodeName="n0"))
    assert mask(pod("one"), nodes({}), store, index) == [False]


def test_driver_can_be_required_on_the_node():
    driver: Object = {"metadata": {"name": "rare"}, "spec": {"preventPodSchedulingIfMissing": True}}
    store = storage(*csi("one", "rare"), csi_node("n0", "rare"), csi_node("n1", "other"), ("csi_drivers", driver))
    assert mask(pod("one"), nodes({}, {}, {}), store) == [True, False, False]
    store.put("csi_drivers", {**driver, "spec": {}})
    assert mask(pod("one"), nodes({}, {}, {}), store) == [True, True, True]
