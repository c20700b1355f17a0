"""The rights that the chart grants are enough and no more."""

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
from tests.kube.chart_tests.rights import DOES, KNOWS, LEASES, SEEN, SELDOM, TELLS
from tests.kube.chart_tests.values import SMALL
from tests.kube.chart_tests.workloads import JOBS, job_named, names_of, pod_named, running
from tests.kube.pods import PODS

ADMIN = Who("admin", "default", "admin")


def test_the_server_may_do_what_its_code_does_and_no_more(release: Release):
    kinds = SEEN | {(lookup.group, lookup.plural) for lookup in LOOKUPS}
    seen = {Right(group, name, verb) for group, name in kinds for verb in ("list", "watch")}
    granted = _granted(release, "ClusterRole")
    asks_makers = {right for right in granted if right.verb == "get" and not right.resource.startswith("pods")}
    assert granted - asks_makers == DOES | KNOWS | seen
    assert not {right for right in granted if right.verb == "delete" and right.resource != "pods"}
    assert _granted(release, "Role") == LEASES
    may_delete = _granted(release, "ClusterRole", values={"allowCancelOwners": True})
    assert {Right(right.group, right.resource, "delete") for right in asks_makers} == (may_delete - granted)


def test_jobs_may_be_made_only_where_that_is_allowed(release: Release):
    assert all("submit" not in item["metadata"]["name"] for item in release.render())
    objects = release.render({"submit": {"namespaces": ["default"], "tenants": {"vision": "default"}}})
    binding = of_kind(objects, "RoleBinding", "-submit")
    assert binding["metadata"]["namespace"] == "default"
    rights = rights_in(of_kind(objects, "ClusterRole", "-submit")["rules"])
    assert {right.resource for right in rights} == {"jobs", "services", "secrets"}
    assert not [
        item for item in objects if item["kind"] == "ClusterRoleBinding" and "submit" in item["roleRef"]["name"]
    ]


def test_a_dry_run_may_change_nothing(release: Release):
    granted = _granted(release, "ClusterRole", values={"dryRun": True})
    assert {right.verb for right in granted - TELLS - KNOWS} == {"get", "list", "watch"}


def test_the_agent_may_do_what_its_code_does_and_no_more(release: Release):
    assert _granted(release, "ClusterRole", "-agent") == rights_in(list(RIGHTS))


def test_a_lone_pod_gangs_and_a_cancelled_one_need_no_other_rights(release: Release, tmp_path: Path, audit: Audit):
    plane = release.plane
    with release.service(tmp_path / "home") as service:
        plane.admin.post(PODS, pod_named("lone"))
        plane.admin.post("/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups", _native_group("native", 2))
        for number in range(2):
            plane.admin.post(PODS, pod_named(f"native-{number}", schedulingGroup={"podGroupName": "native"}))
        plane.admin.post(JOBS, job_named("gang", 4))
        pods = plane.admin.until(PODS, lambda found: running(found) == 7)
        assert all("gpusquad.io/job" in pod["metadata"]["annotations"] for pod in pods)
        [lone] = [row for row in service.scheduler.unfinished() if row.name == "lone"]
        service.scheduler.cancel(lone.id, ADMIN)
        plane.admin.until(PODS, lambda found: "lone" not in names_of(found))
    groups = {("batch", "jobs"), ("scheduling.k8s.io", "podgroups")}
    seen = {Right(group, name, verb) for group, name in SEEN | groups for verb in ("list", "watch")}
    assert seen | (DOES - SELDOM) | LEASES <= _used(audit, "gpusquad")


def test_an_owner_is_deleted_only_where_that_is_allowed(release: Release, tmp_path: Path, audit: Audit):
    release.install({**SMALL, "allowCancelOwners": True})
    with release.service(tmp_path / "home") as service:
        release.plane.admin.post(JOBS, job_named("unwanted", 2))
        release.plane.admin.until(PODS, lambda found: running(found) == 2)
        [row] = service.scheduler.unfinished()
        service.scheduler.cancel(row.id, ADMIN)
        release.plane.admin.until(JOBS, lambda found: not found)
        release.plane.admin.until(PODS, lambda found: not found)
    release.install(SMALL)
    assert {Right("batch", "jobs", verb) for verb in ("get", "delete")} <= _used(audit, "gpusquad")


def test_jobs_are_made_changed_and_cancelled_where_that_is_allowed(release: Release, tmp_path: Path, audit: Audit):
    plane = release.plane
    release.install({**SMALL, "submit": {"namespaces": ["default"], "image": "none"}})
    with release.service(tmp_path / "home") as service:
        file = {"name": "made", "command": ["true"], "gpus": 1, "count": 2, "estimate": "1h"}
        [row] = service.scheduler.submit(expand(check(file)), ADMIN)
        plane.admin.until(PODS, lambda found: running(found) == 2)
        service.scheduler.update(row.id, JobChange(estimate_us=7_200_000_000), ADMIN)
        plane.admin.until(PODS, lambda found: {p["metadata"]["annotations"][ESTIMATE] for p in found} == {"7200s"})
        service.scheduler.cancel(row.id, ADMIN)
        plane.admin.until(JOBS, lambda found: not found)
    release.install(SMALL)
    made = {Right("batch", "jobs", "create"), Right("batch", "jobs", "delete"), Right("", "services", "create")}
    assert made | {Right("", "pods", "patch")} <= _used(audit, "gpusquad")


@pytest.mark.parametrize("lookup", LOOKUPS, ids=lambda lookup: f"{lookup.group}-{lookup.kind}")
def test_every_kind_of_group_may_be_looked_up(
    release: Release, service: Service, audit: Audit, lookup: Lookup
):  # fmt: skip
    """Also where the cluster has no such kind: whoever may not see it is told so before whether it exists."""
    release.plane.admin.post(PODS, _pod_of(lookup))
    marker = pod_named("marker")  # taken up after the other, so that that one has been looked at
    release.plane.admin.post(PODS, marker)
    release.plane.admin.until(PODS, lambda found: running(found) == 1)
    wanted = Right(lookup.group, lookup.plural, "list")
    release.plane.daemons["kube-apiserver"].wait_for("asked", lambda: wanted in _used(audit, "gpusquad"), 20.0)


def _pod_of(lookup: Lookup) -> Object:
    pod = pod_named("member")
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


def _native_group(name: str, least: int) -> Object:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": least}}}}


def _granted(release: Release, kind: str, ending: str = "", values: Object | None = None) -> set[Right]:
    return rights_in(of_kind(release.render(values), kind, ending)["rules"])


def _used(audit: Audit, account: str) -> set[Right]:
    """What it has asked for so far; nothing of that was refused for want of a right."""
    requests = list(audit.requests(f"system:serviceaccount:gpusquad:{account}"))
    assert [request for request in requests if request.code == 403] == []
    return {request.right for request in requests}
