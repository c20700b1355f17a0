"""Bad days on a real control plane: after each of them nothing is given away twice and nobody is stuck."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.api import Api, Refused
from tests.kube.checks import check, check_quiet, wait_until_all_over
from tests.kube.plane import ControlPlane, Settings
from tests.kube.pods import PODS
from tests.kube.service import service_process, serving

pytestmark = pytest.mark.slow


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(Settings(fake_nodes=2, gpus_per_node=4)) as started:
        yield started


def pod(api: Api, name: str, run_s: float = 1.0, gang: str = "", size: int = 0, gpus: int = 1,
        scheduler: str = "gpusquad", **annotations: str) -> str:  # fmt: skip
    said = {"fake.gpusquad/run-time": f"{run_s}s", "gpusquad.io/estimate": f"{run_s + 1}s"}
    said |= {"gpusquad.io/" + key.replace("_", "-"): text for key, text in annotations.items()}
    if gang:
        said |= {"gpusquad.io/group": gang, "gpusquad.io/group-size": str(size)}
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]}
    api.post(PODS, {"metadata": {"name": name, "annotations": said}, "spec": spec})
    return name


def gang(api: Api, name: str, size: int, run_s: float = 1.0) -> list[str]:
    return [pod(api, f"{name}-{index}", run_s, name, size) for index in range(size)]


def bound(api: Api, names: list[str], timeout_s: float = 30.0) -> None:
    wanted = set(names)
    api.until(
        PODS, lambda pods: wanted <= {p["metadata"]["name"] for p in pods if p["spec"].get("nodeName")}, timeout_s
    )


def test_the_api_server_restarts_in_the_middle_of_a_gang(plane: ControlPlane, tmp_path: Path):
    with serving(plane, tmp_path):
        names = [*gang(plane.admin, "first", 8, 2.0), *gang(plane.admin, "second", 8, 1.0)]
        bound(plane.admin, names[:1])
        server = plane.daemons["kube-apiserver"]
        server.stop(signal.SIGKILL)
        server.start()
        plane.wait_until_ready()
        wait_until_all_over(plane.admin, names)
        check_quiet(plane.admin)


def test_the_leader_is_killed_and_another_goes_on(plane: ControlPlane):
    leaders = [service_process(plane, f"replica-{n}", lease="gpusquad") for n in range(2)]
    try:
        for one in leaders:
            one.start()
        names = gang(plane.admin, "running", 4, 4.0)
        bound(plane.admin, names)
        names += gang(plane.admin, "waiting", 8, 1.0)
        lease = plane.admin.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/gpusquad")
        first = _pid_of_leader(plane, leaders)
        leaders[first].stop(signal.SIGKILL)
        wait_until_all_over(plane.admin, names, 90.0)
        check_quiet(plane.admin)
        after = plane.admin.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/gpusquad")
        assert after["spec"]["holderIdentity"] != lease["spec"]["holderIdentity"]
    finally:
        for one in leaders:
            one.stop()


def _pid_of_leader(plane: ControlPlane, replicas: list) -> int:
    """Only who leads serves: it has written where."""
    (found,) = [n for n in range(len(replicas)) if (plane.folder / f"replica-{n}" / "server.json").exists()]
    return found


def test_a_node_is_deleted_under_a_gang(plane: ControlPlane, tmp_path: Path):
    with serving(plane, tmp_path):
        owned = job(plane.admin, "train", 2, run_s=3.0, gpus=4)
        pods = _pods_of(plane.admin, "train", 2)
        bound(plane.admin, pods)
        plane.admin.delete("/api/v1/nodes/fake-0")
        plane.add_fake_nodes(1, 4, prefix="new")
        plane.admin.until(owned, lambda jobs: _complete(jobs, "train"), 90.0)
        check_quiet(plane.admin)


def test_a_pod_is_deleted_before_it_is_bound(plane: ControlPlane, tmp_path: Path):
    with serving(plane, tmp_path):
        for turn in range(6):
            names = gang(plane.admin, f"race-{turn}", 4, 0.5)
            plane.admin.delete(f"{PODS}/{names[-1]}", gracePeriodSeconds="0")
        last = gang(plane.admin, "last", 8, 0.5)
        wait_until_all_over(plane.admin, last, 90.0)
        check(plane.admin)


def test_without_the_right_to_bind_nothing_happens_until_it_is_given(plane: ControlPlane, tmp_path: Path):
    read = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch", "patch", "create"]}
    without = [
        {"apiGroups": [""], "resources": ["pods", "nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes"],
         "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["storage.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/status", "events"], "verbs": ["patch", "create", "update"]},
    ]  # fmt: skip
    plane.allow(without)
    with serving(plane, tmp_path, user="gpusquad"):
        name = pod(plane.admin, "patient")
        with pytest.raises(TimeoutError):
            bound(plane.admin, [name], 3.0)
        plane.allow(
            [*without, {"apiGroups": [""], "resources": ["pods/binding", "bindings"], "verbs": ["create"]}, read]
        )
        wait_until_all_over(plane.admin, [name])


def test_two_schedulers_on_the_same_nodes(tmp_path: Path):
    with ControlPlane(Settings(fake_nodes=2, gpus_per_node=4, scheduler=True)) as plane:
        theirs = [pod(plane.admin, f"theirs-{n}", 4.0, scheduler="default-scheduler") for n in range(6)]
        bound(plane.admin, theirs)
        with serving(plane, tmp_path):
            ours = [pod(plane.admin, f"ours-{n}", 0.5) for n in range(4)]
            large = gang(plane.admin, "large", 8, 0.5)
            bound(plane.admin, ours[:2])
            check(plane.admin)
            wait_until_all_over(plane.admin, [*theirs, *ours, *large])
            check_quiet(plane.admin)


def test_what_cannot_be_read_hurts_nobody_else(plane: ControlPlane, tmp_path: Path):
    with serving(plane, tmp_path):
        pod(plane.admin, "bad-size", gang="bad", size=0)
        pod(plane.admin, "bad-estimate", estimate="soon")
        plane.admin.patch("/api/v1/nodes/fake-0", {"metadata": {"annotations": {"gpusquad.io/cards": "{broken"}}})
        plane.admin.patch("/api/v1/nodes/fake-0", {"metadata": {"annotations": {"gpusquad.io/cards": None}}})
        names = [pod(plane.admin, f"good-{n}", 0.5) for n in range(8)]
        wait_until_all_over(plane.admin, names)
        for name in ("bad-size", "bad-estimate"):
            assert not plane.admin.get(f"{PODS}/{name}")["spec"].get("nodeName")


def job(api: Api, name: str, tasks: int, run_s: float, gpus: int) -> str:
    """An Indexed Job, whose controller makes pods again that are gone. Returns where jobs are listed."""
    path = "/apis/batch/v1/namespaces/default/jobs"
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    said = {"fake.gpusquad/run-time": f"{run_s}s", "gpusquad.io/estimate": f"{run_s + 1}s"}
    template = {
        "metadata": {"annotations": said},
        "spec": {"schedulerName": "gpusquad", "restartPolicy": "Never", "containers": [container]},
    }
    spec = {"completionMode": "Indexed", "completions": tasks, "parallelism": tasks, "backoffLimit": 20}
    api.post(path, {"metadata": {"name": name}, "spec": {**spec, "template": template}})
    return path


def _pods_of(api: Api, name: str, tasks: int) -> list[str]:
    pods = api.until(PODS, lambda pods: len(pods) == tasks, labelSelector=f"job-name={name}")
    return [p["metadata"]["name"] for p in pods]


def _complete(jobs: list, name: str) -> bool:
    return any(
        condition["type"] == "Complete" and condition["status"] == "True"
        for one in jobs
        if one["metadata"]["name"] == name
        for condition in one["status"].get("conditions", ())
    )


def test_a_refusal_of_the_api_server_releases_the_rest_of_the_gang(plane: ControlPlane, tmp_path: Path):
    """An admission policy refuses the binding of the last pod: those bound before it do not hold cards for nothing."""
    _refuse_binding_of(plane, "picky-3")
    with serving(plane, tmp_path):
        gang(plane.admin, "picky", 4, 60.0)
        plane.admin.until(PODS, lambda pods: [p["metadata"]["name"] for p in pods] == ["picky-3"], 30.0)
        wait_until_all_over(plane.admin, gang(plane.admin, "next", 8, 0.5))
        check(plane.admin)


def _refuse_binding_of(plane: ControlPlane, name: str) -> None:
    """Returns when the API server heeds it."""
    root = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    constraints = {"resourceRules": [rule]}
    validations = [{"expression": f"object.metadata.name != '{name}'", "message": "not this one"}]
    spec = {"failurePolicy": "Fail", "matchConstraints": constraints, "validations": validations}
    plane.admin.post(f"{root}/validatingadmissionpolicies", {"metadata": {"name": "refuse"}, "spec": spec})
    spec = {"policyName": "refuse", "validationActions": ["Deny"]}
    plane.admin.post(f"{root}/validatingadmissionpolicybindings", {"metadata": {"name": "refuse"}, "spec": spec})
    pod(plane.admin, name, scheduler="nobody")
    plane.daemons["kube-apiserver"].wait_for("heeding the policy", lambda: _is_refused(plane.admin, name), 30.0)
    plane.admin.delete(f"{PODS}/{name}", gracePeriodSeconds="0")


def _is_refused(api: Api, name: str) -> bool:
    try:
        api.post(f"{PODS}/{name}/binding?dryRun=All", {"metadata": {"name": name}, "target": {"name": "fake-0"}})
    except Refused as error:
        return "not this one" in str(error)
    return False
