"""Tests of the node filters against the real kube-scheduler: it chooses allowed nodes, or none if none is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from gpusquad.engines.kubernetes.filters import NodeMasks, PodIndex, Storage, rule_of
from tests.engines.kubernetes.filters import random_objects
from tests.kube.api import Api, Object
from tests.kube.plane import ControlPlane, Settings, fake_node, is_ready

NODES = 12
PODS = 110
CLAIM_PODS = 60
SEED = 7
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
ANYWHERE = {"tolerations": [{"operator": "Exists"}]}
STAYS = "gpusquad.io/stays"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ControlPlane(Settings(kwok=True, scheduler=True)) as plane:
        yield Cluster(plane.admin)


class Cluster:
    """Cluster of fake nodes with the engine's node masks for it."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.rng = Random(SEED)
        self.index, self.storage = PodIndex(), Storage()
        self.placed: dict[str, Object] = {}
        self._make_namespaces()
        self._make_nodes()
        self.nodes = sorted(api.get("/api/v1/nodes")["items"], key=lambda node: node["metadata"]["name"])
        self.masks = NodeMasks(self.nodes, self.index, self.storage)

    def compare(self, pod: Object) -> tuple[Object, str]:
        """Let kube-scheduler place a pod and compare with the mask. Return the pod and the difference ("": none)."""
        created = self.api.post(_pods(pod), {**pod, "spec": {**pod["spec"], "schedulerName": "default-scheduler"}})
        rule = rule_of(created, self.index)
        mask = self.masks.mask(rule)
        allowed = {node["metadata"]["name"] for node, ok in zip(self.nodes, mask, strict=True) if ok}
        after = self._wait_for_decision(created)
        chosen = after["spec"].get("nodeName")
        if chosen is None:
            self.api.delete(_path(pod))
            problem = (
                f"kube-scheduler finds no node, the mask allows {sorted(allowed)}: {_message(after)}" if allowed else ""
            )
        else:
            self.put(after)
            problem = (
                f"kube-scheduler chooses {chosen}, the mask says {self.masks.explain(rule)}"
                if chosen not in allowed
                else ""
            )
        return after, f"{pod}\n  {problem}" if problem else ""

    def place(self, pod: Object, node: str) -> None:
        """Place a pod without the scheduler."""
        self.put(self.api.post(_pods(pod), {**pod, "spec": {**pod["spec"], **ANYWHERE, "nodeName": node}}))

    def put(self, pod: Object) -> None:
        self.index.put(pod)
        self.placed[pod["metadata"]["name"]] = pod

    def delete_random_pod(self) -> None:
        """Delete a random pod. With a finalizer it stays, marked as deleted."""
        pod = self.placed.pop(self.rng.choice(sorted(self.placed)))
        self.api.delete(_path(pod), gracePeriodSeconds="0")
        if STAYS in pod["metadata"].get("finalizers", ()):
            self.index.put(self.api.get(_path(pod)))
            return
        self.api.until(_pods(pod), lambda found: not found, fieldSelector=f"metadata.name={pod['metadata']['name']}")
        self.index.remove(pod)

    def complete_random_pod(self) -> None:
        """Let a random pod succeed. It then occupies nothing."""
        pod = self.placed.pop(self.rng.choice(sorted(self.placed)))
        self.api.patch(_path(pod), {"metadata": {"annotations": {"fake.gpusquad/run-time": "1ms"}}})
        name = f"metadata.name={pod['metadata']['name']}"
        [ended] = self.api.until(
            _pods(pod), lambda found: found[0]["status"]["phase"] == "Succeeded", fieldSelector=name
        )
        self.index.put(ended)

    def _wait_for_decision(self, pod: Object) -> Object:
        name = f"metadata.name={pod['metadata']['name']}"
        [found] = self.api.until(_pods(pod), lambda found: bool(found) and _is_decided(found[0]), fieldSelector=name)
        return found

    def _make_namespaces(self) -> None:
        for name, labels in random_objects.NAMESPACES.items():
            content = {"metadata": {"name": name, "labels": labels}}
            if name == "default":
                self.api.patch("/api/v1/namespaces/default", content)
            else:
                self.api.post("/api/v1/namespaces", content)
            accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
            self.api.until(accounts, lambda found: any(account["metadata"]["name"] == "default" for account in found))
        for namespace in self.api.get("/api/v1/namespaces")["items"]:
            self.index.put_namespace(namespace["metadata"]["name"], namespace["metadata"]["labels"])

    def _make_nodes(self) -> None:
        """Create the nodes, then add their taints, then a label. A pod that requires the label shows that the scheduler
        has seen all changes."""
        wanted = [random_objects.node(self.rng, f"fake-{number}") for number in range(NODES)]
        for node in wanted:
            labels = node["metadata"]["labels"]
            body = fake_node(node["metadata"]["name"], 8, {})
            self.api.post("/api/v1/nodes", {**body, "metadata": {**body["metadata"], "labels": labels}})
        self.api.until("/api/v1/nodes", lambda found: all(is_ready(item) and not _taints(item) for item in found))
        for node in wanted:
            self.api.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": node["spec"]})
        self.api.until("/api/v1/nodes", lambda found: all(map(_has_cordon_taint_if_cordoned, found)))
        self.api.patch("/api/v1/nodes/fake-0", {"metadata": {"labels": {"settled": "yes"}}})
        self.probe(nodeSelector={"settled": "yes"}, **ANYWHERE)

    def probe(self, **spec: object) -> None:
        """Wait until the scheduler places this pod, and delete it."""
        pod: Object = {"metadata": {"name": "probe", "namespace": "default"}}
        pod["spec"] = {"containers": [{"name": "main", "image": "none"}], **spec}
        self.api.post(_pods(pod), pod)
        self.api.until(_pods(pod), lambda found: "nodeName" in found[0]["spec"], fieldSelector="metadata.name=probe")
        self.api.delete(_path(pod), gracePeriodSeconds="0")
        self.api.until(_pods(pod), lambda found: not found, fieldSelector="metadata.name=probe")


def test_kube_scheduler_places_pods_on_allowed_nodes(cluster: Cluster):
    rng, problems, bound = cluster.rng, [], 0
    for number in range(10):
        cluster.place(random_objects.pod(rng, f"placed-{number}"), f"fake-{rng.randrange(NODES)}")
    for number in range(PODS):
        pod = random_objects.pod(rng, f"pod-{number}", demands=4)
        if rng.random() < 0.3:
            pod["metadata"]["finalizers"] = [STAYS]
        if rng.random() < 0.6:
            _pin(pod, f"fake-{rng.randrange(NODES)}")
        after, problem = cluster.compare(pod)
        problems += [problem] if problem else []
        bound += "nodeName" in after["spec"]
        if cluster.placed and rng.random() < 0.4:
            rng.choice((cluster.delete_random_pod, cluster.delete_random_pod, cluster.complete_random_pod))()
    assert not problems, "\n".join(problems)
    assert 0.2 * PODS < bound < 0.9 * PODS  # both outcomes were tested


def test_kube_scheduler_places_pods_with_claims_on_allowed_nodes(cluster: Cluster):
    rng, problems, bound = cluster.rng, [], 0
    claims = _make_storage(cluster)
    cluster.probe(volumes=_mounts(["settled"]), **ANYWHERE)
    for number in range(CLAIM_PODS):
        pod = random_objects.pod(rng, f"with-claims-{number}", demands=1)
        pod["metadata"]["namespace"] = "default"
        pod["spec"]["volumes"] = _mounts(rng.sample(claims, rng.choice((1, 1, 1, 2))))
        if rng.random() < 0.6:
            _pin(pod, f"fake-{rng.randrange(NODES)}")
        after, problem = cluster.compare(pod)
        problems += [problem] if problem else []
        bound += "nodeName" in after["spec"]
        if rng.random() < 0.3:
            cluster.delete_random_pod()
    assert not problems, "\n".join(problems)
    assert 0.1 * CLAIM_PODS < bound < 0.9 * CLAIM_PODS


def _make_storage(cluster: Cluster) -> list[str]:
    """Create zonal volumes, drivers with limits, drivers on some nodes only, and claims without a volume."""
    api, storage = cluster.api, "/apis/storage.k8s.io/v1"
    for name, strict in (("limited.test", False), ("rare.test", True)):
        spec = {"attachRequired": False, "preventPodSchedulingIfMissing": strict}
        cluster.storage.put(
            "csi_drivers", api.post(f"{storage}/csidrivers", {"metadata": {"name": name}, "spec": spec})
        )
    late = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.storage.put("classes", api.post(f"{storage}/storageclasses", {"metadata": {"name": "late"}, **late}))
    for number in range(NODES):
        drivers = [{"name": "limited.test", "nodeID": "x", "allocatable": {"count": 1 + number % 2}}] * (number % 3 > 0)
        drivers += [{"name": "rare.test", "nodeID": "x"}] * (number % 2)
        content = {"metadata": {"name": f"fake-{number}"}, "spec": {"drivers": drivers}}
        cluster.storage.put("csi_nodes", api.post(f"{storage}/csinodes", content))
    named = [
        *(_volume(api, f"limited-{number}", "limited.test") for number in range(4)),
        _volume(api, "rare", "rare.test"),
        _volume(api, "in-zone", "other.test", nodeAffinity=_only(random_objects.ZONE, "In", "a", "c")),
        _volume(api, "not-many", "other.test", nodeAffinity=_only("cards", "NotIn", "many")),
        _volume(api, "by-label", "other.test", labels={random_objects.ZONE: "a__b"}),
        _volume(api, "once", "other.test", mode="ReadWriteOncePod"),
        _volume(api, "settled", "other.test"),
    ]
    _claim(api, "late", storageClassName="late")
    _claim(api, "never", storageClassName="")
    found = api.until(CLAIMS, lambda claims: sum(map(_is_bound, claims)) == len(named))
    for claim in found:
        cluster.storage.put("claims", claim)
    for volume in api.get("/api/v1/persistentvolumes")["items"]:
        cluster.storage.put("volumes", volume)
    return [*named, "late", "never", "missing"]


def _volume(api: Api, name: str, driver: str, mode: str = "ReadWriteMany", labels: Object | None = None,
            **spec: object) -> str:  # fmt: skip
    """Create a volume and a claim of the same name that are bound to each other."""
    content = {
        "capacity": {"storage": "1Gi"}, "accessModes": [mode], "csi": {"driver": driver, "volumeHandle": name},
        "claimRef": {"namespace": "default", "name": name}, "storageClassName": "", **spec,
    }  # fmt: skip
    api.post("/api/v1/persistentvolumes", {"metadata": {"name": name, "labels": labels or {}}, "spec": content})
    _claim(api, name, mode, storageClassName="", volumeName=name)
    return name


def _claim(api: Api, name: str, mode: str = "ReadWriteMany", **spec: object) -> None:
    content = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    api.post(CLAIMS, {"metadata": {"name": name}, "spec": content})


def _only(key: str, operator: str, *values: str) -> Object:
    expression = {"key": key, "operator": operator, "values": list(values)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def _mounts(claims: list[str]) -> list[Object]:
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]


def _is_bound(claim: Object) -> bool:
    return claim["status"]["phase"] == "Bound"


def _pin(pod: Object, node: str) -> None:
    """Restrict the pod to one node, so that only this node's bit of the mask matters."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    affinity = (
        pod["spec"]
        .setdefault("affinity", {})
        .setdefault("nodeAffinity", {random_objects.REQUIRED: {"nodeSelectorTerms": [{}]}})
    )
    for term in affinity[random_objects.REQUIRED]["nodeSelectorTerms"]:
        term["matchFields"] = fields


def _pods(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"


def _path(pod: Object) -> str:
    return f"{_pods(pod)}/{pod['metadata']['name']}"


def _taints(node: Object) -> list[Object]:
    return node["spec"].get("taints", [])


def _has_cordon_taint_if_cordoned(node: Object) -> bool:
    """Return whether the taint matches ``unschedulable``. A controller adds the taint later."""
    has_taint = any(taint["key"] == "node.kubernetes.io/unschedulable" for taint in _taints(node))
    return has_taint or not node["spec"].get("unschedulable")


def _is_decided(pod: Object) -> bool:
    return "nodeName" in pod["spec"] or any(
        condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable"
        for condition in pod["status"].get("conditions", ())
    )


def _message(pod: Object) -> str:
    return next(
        condition["message"] for condition in pod["status"]["conditions"] if condition["type"] == "PodScheduled"
    )
