"""Tests of the scheduler under failures of a real control plane: no card is assigned twice and every pod ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.api import Api, Refused
from tests.kube.checks import check, check_settled, wait_until_all_succeeded
from tests.kube.plane import ControlPlane, Settings
from tests.kube.pods import PODS
from tests.kube.service import service_process, serving

pytestmark = pytest.mark.slow


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(Settings(fake_nodes=2, gpus_per_node=4)) as started:
        yield started


def make_pod(api: Api, name: str, run_s: float = 1.0, gang: str = "", size: int = 0, gpus: int = 1,
        scheduler: str = "gpusquad", **annotations: str) -> str:  # fmt: skip
    metadata_annotations = {"fake.gpusquad/run-time": f"{run_s}s", "gpusquad.io/estimate": f"{run_s + 1}s"}
    metadata_annotations |= {"gpusquad.io/" + key.replace("_", "-"): text for key, text in annotations.items()}
    if gang:
        metadata_annotations |= {"gpusquad.io/group": gang, "gpusquad.io/group-size": str(size)}
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]}
    api.post(PODS, {"metadata": {"name": name, "annotations": metadata_annotations}, "spec": spec})
    return name


def make_gang(api: Api, name: str, size: int, run_s: float = 1.0) -> list[str]:
    return [make_pod(api, f"{name}-{index}", run_s, name, size) for index in range(size)]


def wait_until_bound(api: Api, names: list[str], timeout_s: float = 30.0) -> None:
    wanted = set(names)
    api.until(
        PODS, lambda pods: wanted <= {p["metadata"]["name"] for p in pods if p["spec"].get("nodeName")}, timeout_s
    )


def test_gangs_succeed_when_the_api_server_restarts_during_binding(plane: ControlPlane, tmp_path: Path):
    with serving(plane, tmp_path):
        names = [*make_gang(plane.admin, "first", 8, 2.0), *make_gang(plane.admin, "second", 8, 1.0)]
        wait_until_bound(plane.admin, names[:1])
        server = plane.daemons["kube-apiserver"]
        server.stop(signal.SIGKILL)
        server.start()
        plane.wait_until_ready()
        wait_until_all_succeeded(plane.admin, names)
        check_settled(plane.admin)


def test_another_replica_takes_over_when_the_leader_is_killed(plane: ControlPlane):
    replicas = [service_process(plane, f"replica-{n}", lease="gpusquad") for n in range(2)]
    try:
        for replica in replicas:
            replica.start()
        names = make_gang(plane.admin, "running", 4, 4.0)
        wait_until_bound(plane.admin, names)
        names += make_gang(plane.admin, "waiting", 8, 1.0)
        lease = plane.admin.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/gpusquad")
        leader = _index_of_leader(plane, replicas)
        replicas[leader].stop(signal.SIGKILL)
        wait_until_all_succeeded(plane.admin, names, 90.0)
        check_settled(plane.admin)
        after = plane.admin.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/gpusquad")
        assert after["spec"]["holderIdentity"] != lease["spec"]["holderIdentity"]
    finally:
        for replica in replicas:
            replica.stop()


def _index_of_leader(plane: ControlPlane, replicas: list) -> int:
    """Return the index of the leader. Only the leader writes server.json."""
    (found,) = [n for n in range(len(replicas)) if (plane.folder / f"replica-{n}" / "server.json").exists()]
    return found


def test_job_completes_when_a_node_is_deleted(plane: ControlPlane, tmp_path: Path):
    with serving(plane, tmp_path):
        owned = make_job(plane.admin, "train", 2, run_s=3.0, gpus=4)
        pods = _pods_of(plane.admin, "train", 2)
        wait_until_bound(plane.admin, pods)
        plane.admin.delete("/api/v1/nodes/fake-0")
        plane.add_fake_nodes(1, 4, prefix="new")
        plane.admin.until(owned, lambda jobs: _is_complete(jobs, "train"), 90.0)
        check_settled(plane.admin)


def test_other_gangs_succeed_when_a_pod_is_deleted_before_binding(plane: ControlPlane, tmp_path: Path):
    with serving(plane, tmp_path):
        for round_number in range(6):
            names = make_gang(plane.admin, f"race-{round_number}", 4, 0.5)
            plane.admin.delete(f"{PODS}/{names[-1]}", gracePeriodSeconds="0")
        last = make_gang(plane.admin, "last", 8, 0.5)
        wait_until_all_succeeded(plane.admin, last, 90.0)
        check(plane.admin)


def test_pod_is_bound_only_after_the_right_to_bind_is_granted(plane: ControlPlane, tmp_path: Path):
    read = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch", "patch", "create"]}
    without_binding = [
        {"apiGroups": [""], "resources": ["pods", "nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes"],
         "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["storage.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/status", "events"], "verbs": ["patch", "create", "update"]},
    ]  # fmt: skip
    plane.allow(without_binding)
    with serving(plane, tmp_path, user="gpusquad"):
        name = make_pod(plane.admin, "patient")
        with pytest.raises(TimeoutError):
            wait_until_bound(plane.admin, [name], 3.0)
        plane.allow(
            [
                *without_binding,
                {"apiGroups": [""], "resources": ["pods/binding", "bindings"], "verbs": ["create"]},
                read,
            ]
        )
        wait_until_all_succeeded(plane.admin, [name])


def test_default_scheduler_on_the_same_nodes_causes_no_overcommitment(tmp_path: Path):
    with ControlPlane(Settings(fake_nodes=2, gpus_per_node=4, scheduler=True)) as plane:
        others = [make_pod(plane.admin, f"theirs-{n}", 4.0, scheduler="default-scheduler") for n in range(6)]
        wait_until_bound(plane.admin, others)
        with serving(plane, tmp_path):
            own = [make_pod(plane.admin, f"ours-{n}", 0.5) for n in range(4)]
            large = make_gang(plane.admin, "large", 8, 0.5)
            wait_until_bound(plane.admin, own[:2])
            check(plane.admin)
            wait_until_all_succeeded(plane.admin, [*others, *own, *large])
            check_settled(plane.admin)


def test_invalid_annotations_do_not_affect_other_pods(plane: ControlPlane, tmp_path: Path):
    with serving(plane, tmp_path):
        make_pod(plane.admin, "bad-size", gang="bad", size=0)
        make_pod(plane.admin, "bad-estimate", estimate="soon")
        plane.admin.patch("/api/v1/nodes/fake-0", {"metadata": {"annotations": {"gpusquad.io/cards": "{broken"}}})
        plane.admin.patch("/api/v1/nodes/fake-0", {"metadata": {"annotations": {"gpusquad.io/cards": None}}})
        names = [make_pod(plane.admin, f"good-{n}", 0.5) for n in range(8)]
        wait_until_all_succeeded(plane.admin, names)
        for name in ("bad-size", "bad-estimate"):
            assert not plane.admin.get(f"{PODS}/{name}")["spec"].get("nodeName")


def make_job(api: Api, name: str, tasks: int, run_s: float, gpus: int) -> str:
    """Create an Indexed Job, whose controller replaces deleted pods. Return the path of the job list."""
    path = "/apis/batch/v1/namespaces/default/jobs"
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    annotations = {"fake.gpusquad/run-time": f"{run_s}s", "gpusquad.io/estimate": f"{run_s + 1}s"}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"schedulerName": "gpusquad", "restartPolicy": "Never", "containers": [container]},
    }
    spec = {"completionMode": "Indexed", "completions": tasks, "parallelism": tasks, "backoffLimit": 20}
    api.post(path, {"metadata": {"name": name}, "spec": {**spec, "template": template}})
    return path


def _pods_of(api: Api, name: str, tasks: int) -> list[str]:
    pods = api.until(PODS, lambda pods: len(pods) == tasks, labelSelector=f"job-name={name}")
    return [p["metadata"]["name"] for p in pods]


def _is_complete(jobs: list, name: str) -> bool:
    return any(
        condition["type"] == "Complete" and condition["status"] == "True"
        for item in jobs
        if item["metadata"]["name"] == name
        for condition in item["status"].get("conditions", ())
    )


def test_refused_binding_releases_the_rest_of_the_gang(plane: ControlPlane, tmp_path: Path):
    """An admission policy refuses the binding of the last pod; the pods bound before it release their cards."""
    _refuse_binding_of(plane, "picky-3")
    with serving(plane, tmp_path):
        make_gang(plane.admin, "picky", 4, 60.0)
        plane.admin.until(PODS, lambda pods: [p["metadata"]["name"] for p in pods] == ["picky-3"], 30.0)
        wait_until_all_succeeded(plane.admin, make_gang(plane.admin, "next", 8, 0.5))
        check(plane.admin)


def _refuse_binding_of(plane: ControlPlane, name: str) -> None:
    """Add an admission policy that refuses to bind this pod, and wait until the API server applies it."""
    root = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    constraints = {"resourceRules": [rule]}
    validations = [{"expression": f"object.metadata.name != '{name}'", "message": "not this one"}]
    spec = {"failurePolicy": "Fail", "matchConstraints": constraints, "validations": validations}
    plane.admin.post(f"{root}/validatingadmissionpolicies", {"metadata": {"name": "refuse"}, "spec": spec})
    spec = {"policyName": "refuse", "validationActions": ["Deny"]}
    plane.admin.post(f"{root}/validatingadmissionpolicybindings", {"metadata": {"name": "refuse"}, "spec": spec})
    make_pod(plane.admin, name, scheduler="nobody")
    plane.daemons["kube-apiserver"].wait_for("applying the policy", lambda: _is_refused(plane.admin, name), 30.0)
    plane.admin.delete(f"{PODS}/{name}", gracePeriodSeconds="0")


def _is_refused(api: Api, name: str) -> bool:
    try:
        api.post(f"{PODS}/{name}/binding?dryRun=All", {"metadata": {"name": name}, "target": {"name": "fake-0"}})
    except Refused as error:
        return "not this one" in str(error)
    return False
