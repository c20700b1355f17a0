"""Claims and volumes: where they can be reached from, and what a pod waits for."""

from __future__ import annotations

import pytest

from gpusquad.engines.kubernetes.filters import NodeMasks, PodIndex, Storage, explain, rule_of
from tests.engines.kubernetes.filters.made import Object

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
    made = Storage()
    for section, item in items:
        made.put(section, item)  # pyright: ignore[reportArgumentType]
    return made


def nodes(*labels: Object) -> list[Object]:
    return [{"metadata": {"name": f"n{number}", "labels": one}} for number, one in enumerate(labels)]


def mask(one: Object, where: list[Object], kept: Storage, index: PodIndex | None = None) -> list[bool]:
    return NodeMasks(where, index, kept).mask(rule_of(one, index)).tolist()


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
def test_a_pod_waits_for_its_claim_and_says_why(items: list[tuple[str, Object]], reason: str):
    kept, where = storage(*items), nodes({}, {})
    rule = rule_of(pod("data"))
    masks = NodeMasks(where, None, kept)
    assert not masks.mask(rule).any()
    assert reason in masks.waits_for(rule)
    assert explain(rule, where, None, kept) == [(masks.waits_for(rule), 2)]


def test_a_claim_that_is_being_deleted_is_not_mounted():
    leaving = claim()
    leaving["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    rule = rule_of(pod("data"))
    assert "being deleted" in NodeMasks([], None, storage(("claims", leaving), ("volumes", volume()))).waits_for(rule)


def test_a_bound_claim_lets_a_pod_go_where_its_volume_is():
    where = nodes({"rack": "1"}, {"rack": "2"}, {})
    near = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]}]}
    }
    kept = storage(("claims", claim()), ("volumes", volume(nodeAffinity=near)))
    masks = NodeMasks(where, None, kept)
    rule = rule_of(pod("data"))
    assert masks.mask(rule).tolist() == [True, False, False]
    assert masks.waits_for(rule) == ""
    assert masks.explain(rule) == [("a volume of the pod is not accessible from there", 2)]
    assert masks.waits_for(rule_of(pod())) == ""
    kept.drop("claims", claim())
    assert not masks.mask(rule).any()


def test_names_of_nodes_do_not_bind_volumes():
    only = {
        "required": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        }
    }
    kept = storage(("claims", claim()), ("volumes", volume(nodeAffinity=only)))
    assert mask(pod("data"), nodes({}, {}), kept) == [True, True]


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
def test_zones_in_the_labels_of_a_volume(labels: Object, expected: list[bool]):
    """A node that names no zone at all may be anywhere."""
    where = nodes({ZONE: "a"}, {ZONE: "b"}, {}, {ZONE: "a", OLD_ZONE: "a"})
    kept = storage(("claims", claim()), ("volumes", volume(labels=labels)))
    assert mask(pod("data"), where, kept) == expected


def test_a_claim_for_one_pod_is_free_when_that_pod_is_gone():
    kept = storage(("claims", claim(accessModes=["ReadWriteOncePod"])), ("volumes", volume()))
    index, user = PodIndex(), pod("data", name="user", nodeName="n0")
    masks = NodeMasks(nodes({}, {}), index, kept)
    rule = rule_of(pod("data"), index)
    assert masks.mask(rule).all()
    index.put(user)
    assert not masks.mask(rule).any()
    assert "another pod uses it" in masks.waits_for(rule)
    index.remove(user)
    assert masks.mask(rule).all()


def test_an_ephemeral_volume_needs_a_bound_claim_of_this_very_pod():
    one = pod(volumes=[{"name": "scratch", "ephemeral": {}}])
    bound = volume("pod-scratch")
    own = storage(("claims", claim("pod-scratch", owner=one)), ("volumes", bound))
    foreign = storage(("claims", claim("pod-scratch", owner=pod(name="other"))), ("volumes", bound))
    assert mask(one, nodes({}), own) == [True]
    assert mask(one, nodes({}), foreign) == [False]
    assert "not its own" in NodeMasks([], None, foreign).waits_for(rule_of(one))
    assert mask(one, nodes({}), Storage()) == [False]


def csi(name: str, driver: str = "limited") -> list[tuple[str, Object]]:
    return [("claims", claim(name)), ("volumes", volume(name, csi={"driver": driver, "volumeHandle": name}))]


def csi_node(name: str, driver: str = "limited", **allocatable: int) -> tuple[str, Object]:
    return "csi_nodes", {
        "metadata": {"name": name},
        "spec": {"drivers": [{"name": driver, "allocatable": allocatable}]},
    }


def test_a_driver_attaches_no_more_volumes_than_it_can():
    kept = storage(*csi("one"), *csi("two"), csi_node("n0", count=1), csi_node("n1", count=2), csi_node("n2"))
    index = PodIndex()
    for node in ("n0", "n1", "n2"):
        index.put(pod("one", name=f"user-{node}", nodeName=node))
    where = nodes({}, {}, {})
    assert mask(pod("two"), where, kept, index) == [False, True, True]
    assert mask(pod("one"), where, kept, index) == [True, True, True]  # it is there already
    assert mask(pod("one", "two"), where, kept, index) == [False, True, True]
    source = {"persistentVolumeName": "volume-of-three"}
    attachment = {"metadata": {"name": "x"}, "spec": {"attacher": "limited", "nodeName": "n1", "source": source}}
    for section, item in (*csi("three"), ("attachments", attachment)):
        kept.put(section, item)  # pyright: ignore[reportArgumentType]
    assert mask(pod("two"), where, kept, index) == [False, False, True]


def test_a_claim_without_a_volume_counts_by_its_class():
    late = {**LATE[1], "provisioner": "limited"}
    unbound = claim("late", volumeName="", storageClassName="late")
    kept = storage(*csi("one"), csi_node("n0", count=1), ("classes", late), ("claims", unbound))
    index = PodIndex()
    index.put(pod("late", "unknown", name="user", nodeName="n0"))
    assert mask(pod("one"), nodes({}), kept, index) == [False]


def test_a_driver_may_insist_on_being_there():
    driver: Object = {"metadata": {"name": "rare"}, "spec": {"preventPodSchedulingIfMissing": True}}
    kept = storage(*csi("one", "rare"), csi_node("n0", "rare"), csi_node("n1", "other"), ("csi_drivers", driver))
    assert mask(pod("one"), nodes({}, {}, {}), kept) == [True, False, False]
    kept.put("csi_drivers", {**driver, "spec": {}})
    assert mask(pod("one"), nodes({}, {}, {}), kept) == [True, True, True]
