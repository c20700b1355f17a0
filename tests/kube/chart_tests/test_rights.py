"""Tests that the chart grants the rights that the code needs and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.agent.kubernetes.api import RIGHTS
from gpusquad.app.service import Service
from gpusquad.engines.kubernetes.parse.lookups import LOOKUPS, Lookup
from gpusquad.kube.names import ESTIMATE
from gpusquad.server.answers import JobChange, Who
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from tests.kube.api import Object
from tests.kube.audit import Audit, Right, rights_in
from tests.kube.chart import Release, of_kind
from tests.kube.chart_tests.rights import ACTIONS, LEASES, RARE, REPORTING, TOKEN_REVIEW, WATCHED
from tests.kube.chart_tests.values import WITHOUT_PERSISTENCE
from tests.kube.chart_tests.workloads import JOBS, count_running, job_manifest, names_of, pod_manifest
from tests.kube.pods import PODS

ADMIN = Who("admin", "default", "admin")


def test_server_has_exactly_the_rights_of_its_code(release: Release):
    kinds = WATCHED | {(lookup.group, lookup.plural) for lookup in LOOKUPS}
    watched = {Right(group, name, verb) for group, name in kinds for verb in ("list", "watch")}
    granted = _granted(release, "ClusterRole")
    reads_owners = {right for right in granted if right.verb == "get" and not right.resource.startswith("pods")}
    assert granted - reads_owners == ACTIONS | TOKEN_REVIEW | watched
    assert not {right for right in granted if right.verb == "delete" and right.resource != "pods"}
    assert _granted(release, "Role") == LEASES
    may_delete = _granted(release, "ClusterRole", values={"allowCancelOwners": True})
    assert {Right(right.group, right.resource, "delete") for right in reads_owners} == (may_delete - granted)


def test_server_may_create_jobs_only_in_submit_namespaces(release: Release):
    assert all("submit" not in item["metadata"]["name"] for item in release.render())
    objects = release.render({"submit": {"namespaces": ["default"], "tenants": {"vision": "default"}}})
    binding = of_kind(objects, "RoleBinding", "-submit")
    assert binding["metadata"]["namespace"] == "default"
    rights = rights_in(of_kind(objects, "ClusterRole", "-submit")["rules"])
    assert {right.resource for right in rights} == {"jobs", "services", "secrets"}
    assert not [
        item for item in objects if item["kind"] == "ClusterRoleBinding" and "submit" in item["roleRef"]["name"]
    ]


def test_dry_run_has_only_read_and_event_rights(release: Release):
    granted = _granted(release, "ClusterRole", values={"dryRun": True})
    assert {right.verb for right in granted - REPORTING - TOKEN_REVIEW} == {"get", "list", "watch"}


def test_agent_has_exactly_the_rights_of_its_code(release: Release):
    assert _granted(release, "ClusterRole", "-agent") == rights_in(list(RIGHTS))


def test_placing_and_cancelling_pods_uses_only_granted_rights(release: Release, tmp_path: Path, audit: Audit):
    plane = release.plane
    with release.service(tmp_path / "home") as service:
        plane.admin.post(PODS, pod_manifest("lone"))
        plane.admin.post("/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups", _native_group("native", 2))
        for number in range(2):
            plane.admin.post(PODS, pod_manifest(f"native-{number}", schedulingGroup={"podGroupName": "native"}))
        plane.admin.post(JOBS, job_manifest("gang", 4))
        pods = plane.admin.until(PODS, lambda found: count_running(found) == 7)
        assert all("gpusquad.io/job" in pod["metadata"]["annotations"] for pod in pods)
        [lone] = [row for row in service.scheduler.queries.unfinished() if row.name == "lone"]
        service.scheduler.cancel(lone.id, ADMIN)
        plane.admin.until(PODS, lambda found: "lone" not in names_of(found))
    groups = {("batch", "jobs"), ("scheduling.k8s.io", "podgroups")}
    watched = {Right(group, name, verb) for group, name in WATCHED | groups for verb in ("list", "watch")}
    assert watched | (ACTIONS - RARE) | LEASES <= _used(audit, "gpusquad")


def test_cancel_deletes_the_owner_when_allowed(release: Release, tmp_path: Path, audit: Audit):
    release.install({**WITHOUT_PERSISTENCE, "allowCancelOwners": True})
    with release.service(tmp_path / "home") as service:
        release.plane.admin.post(JOBS, job_manifest("unwanted", 2))
        release.plane.admin.until(PODS, lambda found: count_running(found) == 2)
        [row] = service.scheduler.queries.unfinished()
        service.scheduler.cancel(row.id, ADMIN)
        release.plane.admin.until(JOBS, lambda found: not found)
        release.plane.admin.until(PODS, lambda found: not found)
    release.install(WITHOUT_PERSISTENCE)
    assert {Right("batch", "jobs", verb) for verb in ("get", "delete")} <= _used(audit, "gpusquad")


def test_jobs_are_created_changed_and_cancelled_when_allowed(release: Release, tmp_path: Path, audit: Audit):
    plane = release.plane
    release.install({**WITHOUT_PERSISTENCE, "submit": {"namespaces": ["default"], "image": "none"}})
    with release.service(tmp_path / "home") as service:
        file = {"name": "made", "command": ["true"], "gpus": 1, "count": 2, "estimate": "1h"}
        [row] = service.scheduler.submit(expand(check(file)), ADMIN)
        plane.admin.until(PODS, lambda found: count_running(found) == 2)
        service.scheduler.update(row.id, JobChange(estimate_us=7_200_000_000), ADMIN)
        plane.admin.until(PODS, lambda found: {p["metadata"]["annotations"][ESTIMATE] for p in found} == {"7200s"})
        service.scheduler.cancel(row.id, ADMIN)
        plane.admin.until(JOBS, lambda found: not found)
    release.install(WITHOUT_PERSISTENCE)
    used_for_jobs = {
        Right("batch", "jobs", "create"),
        Right("batch", "jobs", "delete"),
        Right("", "services", "create"),
    }
    assert used_for_jobs | {Right("", "pods", "patch")} <= _used(audit, "gpusquad")


@pytest.mark.parametrize("lookup", LOOKUPS, ids=lambda lookup: f"{lookup.group}-{lookup.kind}")
def test_every_kind_of_group_can_be_looked_up(
    release: Release, service: Service, audit: Audit, lookup: Lookup
):  # fmt: skip
    """Also for kinds that the cluster lacks, because the API server checks rights before it looks for the kind."""
    release.plane.admin.post(PODS, _pod_of(lookup))
    marker = pod_manifest("marker")  # handled after the other pod, so once it runs the other has been looked up
    release.plane.admin.post(PODS, marker)
    release.plane.admin.until(PODS, lambda found: count_running(found) == 1)
    expected = Right(lookup.group, lookup.plural, "list")
    release.plane.daemons["kube-apiserver"].wait_for(
        "listing the kind", lambda: expected in _used(audit, "gpusquad"), 20.0
    )


def _pod_of(lookup: Lookup) -> Object:
    pod = pod_manifest("member")
    name = "nobody"
    metadata: Object = pod["metadata"]
    if lookup.group == "scheduling.k8s.io":
        pod["spec"]["schedulingGroup"] = {"podGroupName": name}
    elif lookup.kind == "PodGroup" and lookup.group.endswith("k8s.io"):
        label = "scheduling.x-k8s.io/pod-group" if ".x-" in lookup.group else "pod-group.scheduling.sigs.k8s.io"
        metadata["labels"] = {label: name}
    elif lookup.kind == "PodGroup":
        annotation = "pod-group-name" if lookup.group == "scheduling.run.ai" else "scheduling.k8s.io/group-name"
        metadata["annotations"] = {annotation: name}
    elif lookup.kind == "LeaderWorkerSet":
        prefix = "leaderworkerset.sigs.k8s.io"
        metadata["labels"] = {f"{prefix}/name": name, f"{prefix}/group-index": "0"}
    else:
        metadata["ownerReferences"] = [
            {"apiVersion": f"{lookup.group}/{lookup.versions[0]}", "kind": lookup.kind, "name": name, "uid": name,
             "controller": True}
        ]  # fmt: skip
    return pod


def _native_group(name: str, min_count: int) -> Object:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}}}


def _granted(release: Release, kind: str, ending: str = "", values: Object | None = None) -> set[Right]:
    return rights_in(of_kind(release.render(values), kind, ending)["rules"])


def _used(audit: Audit, account: str) -> set[Right]:
    """Return the rights that the account has used so far, and check that no request was forbidden."""
    requests = list(audit.requests(f"system:serviceaccount:gpusquad:{account}"))
    assert [request for request in requests if request.code == 403] == []
    return {request.right for request in requests}
