"""Tests of assumptions about Kubernetes objects: defaulted fields, and which pods a controller recreates."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from gpusquad.engines.kubernetes.parse.gangs import CompleteGang, IncompleteGang, gang_of
from gpusquad.engines.kubernetes.parse.lookups import Find
from gpusquad.engines.kubernetes.parse.membership import membership_of
from gpusquad.engines.kubernetes.parse.requests import request_of_pod
from gpusquad.kube.objects import Object, name_of
from gpusquad.model.job import Request
from tests.kube.api import Refused
from tests.kube.image import IMAGE
from tests.kube.plane import PODGROUPS, ControlPlane, Settings
from tests.kube.pods import PODS, bind, make_pod

pytestmark = pytest.mark.slow

JOBS = "/apis/batch/v1/namespaces/default/jobs"
GROUPS = f"{PODGROUPS}/namespaces/default/podgroups"
FLAGS = ("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true")
DISRUPTED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(Settings(fake_nodes=1, apiserver_flags=FLAGS)) as started:
        yield started


def lookup_on(plane: ControlPlane) -> Find:
    paths = {("batch", "Job"): JOBS, ("scheduling.k8s.io", "PodGroup"): GROUPS}

    return lambda group, kind, namespace, name: plane.admin.get(f"{paths[group, kind]}/{name}")


def make_job(plane: ControlPlane, name: str, **spec: object) -> None:
    resources = {"limits": {"nvidia.com/gpu": "1", "cpu": "1500m"}, "requests": {"memory": "0.5Gi"}}
    container = {"name": "main", "image": IMAGE, "resources": resources}
    template = {"schedulerName": "gpusquad", "restartPolicy": "Never", "containers": [container]}
    content = {"completionMode": "Indexed", "template": {"spec": template}, **spec}
    plane.admin.post(JOBS, {"metadata": {"name": name}, "spec": content})


def pods_of(plane: ControlPlane, job: str, count: int) -> list[Object]:
    selector = f"batch.kubernetes.io/job-name={job}"
    return plane.admin.until(PODS, lambda pods: len(pods) == count, labelSelector=selector)


def test_indexed_job_is_a_gang(plane: ControlPlane):
    make_job(plane, "ranks", completions=3, parallelism=3)
    pods = pods_of(plane, "ranks", 3)
    membership = membership_of(pods[0], lookup_on(plane))
    result = gang_of(membership, pods)
    assert isinstance(result, CompleteGang)
    assert [name_of(pod).rpartition("-")[0] for pod in result.members] == ["ranks-0", "ranks-1", "ranks-2"]
    request = Request(gpus=1, cpu_milli=1500, memory_bytes=2**29, extras=(("pods", 1),))
    assert [(role.name, role.count, role.request) for role in result.job.roles] == [("worker", 3, request)]
    assert isinstance(gang_of(membership, pods[:2]), IncompleteGang)
    assert result.job.checkpoint.preemptible


def test_native_pod_group_is_a_gang(plane: ControlPlane):
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    plane.admin.post(GROUPS, {"metadata": {"name": "pair"}, "spec": spec})
    names = [make_pod(plane.admin, gpus=1, schedulingGroup={"podGroupName": "pair"}) for _ in range(2)]
    pods = [plane.admin.get(f"{PODS}/{name}") for name in names]
    membership = membership_of(pods[0], lookup_on(plane))
    assert (membership.key.name, membership.least, membership.recreates) == ("pair", 2, False)
    result = gang_of(membership, pods)
    assert isinstance(result, CompleteGang)
    assert (result.job.tasks, result.job.gpus) == (2, 2)


def test_request_is_read_from_a_pod_with_defaulted_fields(plane: ControlPlane):
    container = {
        "name": "main",
        "image": IMAGE,
        "resources": {"limits": {"cpu": "0.1", "memory": "1e3", "a.b/c": "2k"}},
    }
    pod = plane.admin.get(f"{PODS}/{make_pod(plane.admin, containers=[container])}")
    assert request_of_pod(pod) == Request(cpu_milli=100, memory_bytes=1000, extras=(("a.b/c", 2000), ("pods", 1)))


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("gives-up", {"backoffLimit": 1}),
        ("goes-on", {"backoffLimit": 2}),
        ("ignores", {"backoffLimit": 0, "podFailurePolicy": DISRUPTED}),
    ],
)
def test_recreation_of_evicted_pods_is_predicted(plane: ControlPlane, name: str, spec: Object):
    """Two running pods are evicted together. The job recreates both or fails, as ``membership_of`` predicted."""
    make_job(plane, name, completions=2, parallelism=2, **spec)
    pods = pods_of(plane, name, 2)
    recreates = membership_of(pods[0], lookup_on(plane)).recreates
    for pod in pods:
        bind(plane.admin, name_of(pod), "fake-0")
    selector = f"batch.kubernetes.io/job-name={name}"
    plane.admin.until(PODS, lambda found: all(p["status"]["phase"] == "Running" for p in found), labelSelector=selector)
    for pod in pods:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name_of(pod)}}
        plane.admin.post(f"{PODS}/{name_of(pod)}/eviction", eviction)
        _set_failed(plane, pod)
    old_uids = {pod["metadata"]["uid"] for pod in pods}
    [job] = plane.admin.until(
        JOBS, lambda jobs: _is_settled(plane, jobs[0], old_uids), fieldSelector=f"metadata.name={name}"
    )
    job_failed = any(condition["type"] == "Failed" for condition in job["status"].get("conditions", ()))
    assert job_failed is not recreates


def _set_failed(plane: ControlPlane, pod: Object) -> None:
    """Set the phase to Failed. KWOK deletes pods without it, and the job would wait for it."""
    with contextlib.suppress(Refused):  # the pod is already deleted
        plane.admin.patch(f"{PODS}/{name_of(pod)}/status", {"status": {"phase": "Failed"}})


def _is_settled(plane: ControlPlane, job: Object, old_uids: set[str]) -> bool:
    if any(condition["type"] == "Failed" for condition in job["status"].get("conditions", ())):
        return True
    found = plane.admin.get(PODS, labelSelector=f"batch.kubernetes.io/job-name={name_of(job)}")["items"]
    new_uids = {pod["metadata"]["uid"] for pod in found} - old_uids
    return len(new_uids) == 2
