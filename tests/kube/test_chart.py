"""The chart on a real API server: what it makes is taken, its rights are enough and no more, no pod suffers."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from gpusquad.agent.kubernetes.__main__ import _parser as agent_options
from gpusquad.agent.kubernetes.api import RIGHTS
from gpusquad.app.service import Service
from gpusquad.engines.kubernetes.gang import ATTEMPT
from gpusquad.engines.kubernetes.objects import CARDS, GPU, JOB
from gpusquad.engines.kubernetes.reading.lookups import LOOKUPS, Lookup
from gpusquad.engines.kubernetes.token_review import AUDIENCE
from gpusquad.model.standing_text import DEADLINE, ESTIMATE, KNOWN, WEIGHT
from gpusquad.server.answers import Change, Who
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from tests.docs.pages import GUIDE, Block, blocks
from tests.kube.api import Api, Object, Refused
from tests.kube.audit import Audit, Right, rights_in
from tests.kube.chart import HelmFailed, Release, of_kind
from tests.kube.plane import ControlPlane, Settings
from tests.kube.pods import PODS

JOBS = "/apis/batch/v1/namespaces/default/jobs"
NODES = 4
CARDS_EACH = 4
PAGE = GUIDE / "kubernetes.md"
ADMIN = Who("admin", "default", "admin")
SMALL = {"persistence": {"enabled": False}}
POSTGRESQL = {"url": "postgresql://gpusquad@db.example.org/gpusquad", "passwordSecret": {"name": "database"}}
EVERYTHING: dict[str, Any] = {
    "store": POSTGRESQL,
    "replicas": 3,
    "allowCancelOwners": True,
    "ownersToRead": [{"apiGroups": ["example.org"], "resources": ["experiments"]}],
    "dryRun": True,
    "submit": {"namespaces": ["default"], "tenants": {"vision": "default"}, "image": "busybox"},
    "config": "[hang]\nsilent_s = 900",
    "imagePullSecrets": [{"name": "registry"}],
    "service": {"type": "NodePort", "port": 80, "hosts": ["gpus.example.org"], "annotations": {"a": "b"}},
    "server": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "podAnnotations": {"a": "b"}},
    "agent": {"slots": 8, "simulate": 4, "deviceNodes": True, "metricsPort": 0, "podAnnotations": {"a": "b"}},
    "podDisruptionBudget": {"enabled": True},
    "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]},
}
CASES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "everything": EVERYTHING,
    "a claim of theirs": {"persistence": {"existingClaim": "theirs"}},
    "no runtime class": {"agent": {"nvidia": {"library": "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"}}},
    "the least": {
        **SMALL, "agent": {"enabled": False}, "confine": False, "admission": {"addGpuToShares": False},
        "priorityClass": {"create": False},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return Audit(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="module")
def cluster(audit: Audit) -> Iterator[ControlPlane]:
    """With what NVIDIA's stack leaves on a cluster: labels, and a runtime class."""
    settings = Settings(kwok=True, scheduler=True, apiserver_flags=(*audit.flags(), "--allow-privileged=true"))
    with ControlPlane(settings) as plane:
        plane.add_fake_nodes(NODES, CARDS_EACH, labels={"nvidia.com/gpu.present": "true"})
        for number in range(NODES):  # and what an agent says of them
            plane.admin.patch(f"/api/v1/nodes/fake-{number}", {"metadata": {"annotations": {CARDS: _cards(number)}}})
        plane.admin.post("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
        yield plane


@pytest.fixture(scope="module")
def release(cluster: ControlPlane) -> Release:
    found = Release(cluster)
    found.install(SMALL)
    found.wait_until_up()
    server, agent = found.api("gpusquad"), found.api("gpusquad-agent")
    cluster.admin.post(PODS, _pod("probe", schedulerName="nobody"))
    note = {"metadata": {"annotations": {"a": "b"}}}
    # The API server takes policies up a little later than it stores them.
    for what in (
        lambda: _is_refused(lambda: server.patch(f"{PODS}/probe?dryRun=All", note), "touch pods"),
        lambda: _is_refused(lambda: agent.patch("/api/v1/nodes/fake-1?dryRun=All", note), "own node"),
        lambda: GPU in str(cluster.admin.post(f"{PODS}?dryRun=All", _share({"gpu-fraction": "0.5"}))["spec"]),
    ):
        cluster.daemons["kube-apiserver"].wait_for("following the policies", what, 30.0)
    cluster.admin.delete(f"{PODS}/probe", gracePeriodSeconds="0")
    return found


def _is_refused(ask: Callable[[], object], why: str) -> bool:
    try:
        ask()
    except Refused as error:
        return why in str(error)
    return False


@pytest.fixture
def service(release: Release, tmp_path: Path) -> Iterator[Service]:
    with release.service(tmp_path / "home") as started:
        yield started


@pytest.fixture(autouse=True)
def clean(cluster: ControlPlane) -> Iterator[None]:
    """Each test leaves no pods of its own."""
    yield
    cluster.kubectl("delete", "jobs,pods,podgroups.scheduling.k8s.io", "--all", "--cascade=foreground", "--timeout=30s")


# --- what the chart makes ---


@pytest.mark.parametrize("name", CASES)
def test_the_server_takes_every_object(cluster: ControlPlane, name: str):
    text = yaml.safe_dump_all(Release(cluster, "gpusquad-dry", "default").render(CASES[name]))
    command = ("apply", "--server-side", "--dry-run=server", "--namespace", "default", "-f", "-")
    done = subprocess.run(
        [cluster.programs["kubectl"], "--kubeconfig", cluster.kubeconfig(), *command],
        input=text, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replicas": 2}, "needs PostgreSQL"),
        ({"store": {"url": "postgresql://gpusquad:secret@db/gpusquad"}}, "url"),
        ({"schedulerName": "default-scheduler"}, "schedulerName"),
        ({"agent": {"slotz": 2}}, "slotz"),
        ({"monitoring": {"enabled": True}}, "tokenSecret"),
    ],
    ids=str,
)
def test_values_that_cannot_work_are_refused(release: Release, values: Object, said: str):
    with pytest.raises(HelmFailed, match=said):
        release.render(values)


def test_replicas_follow_from_the_store(release: Release):
    alone = of_kind(release.render(), "Deployment")["spec"]
    several = of_kind(release.render({"store": POSTGRESQL}), "Deployment")["spec"]
    assert (alone["replicas"], alone["strategy"]["type"]) == (1, "Recreate")
    assert (several["replicas"], several["strategy"]["type"]) == (2, "RollingUpdate")
    assert of_kind(release.render({"store": POSTGRESQL, "replicas": 1}), "Deployment")["spec"]["replicas"] == 1


def test_monitoring_calls_the_server_by_a_name_it_knows(release: Release):
    objects = release.render({"monitoring": {"enabled": True, "tokenSecret": {"name": "token"}}})
    [address, _] = of_kind(objects, "ServiceMonitor")["spec"]["endpoints"][0]["relabelings"]
    config = of_kind(objects, "ConfigMap")["data"]["config.toml"]
    assert address["replacement"].partition(":")[0] in config


def test_the_server_meets_the_strictest_standard_for_pods(release: Release):
    """The API server judges it: a namespace may be kept to `restricted`."""
    name = "strict"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    release.plane.admin.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    release.plane.admin.until(accounts, bool)
    template = of_kind(release.render(), "Deployment")["spec"]["template"]
    template["spec"] |= {"serviceAccountName": "default"}
    pod = {"metadata": {"name": "server", "labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    release.plane.admin.post(f"/api/v1/namespaces/{name}/pods", pod)
    agent = of_kind(release.render(), "DaemonSet")["spec"]["template"]["spec"] | {"serviceAccountName": "default"}
    with pytest.raises(Refused, match="hostPath"):
        release.plane.admin.post(f"/api/v1/namespaces/{name}/pods", {"metadata": {"name": "agent"}, "spec": agent})


@pytest.mark.parametrize(
    ("given", "wanted"),
    [({}, {"nvidia.com/gpu.present": "true"}), ({"nodeSelector": {}}, {}), ({"nodeSelector": {"a": "b"}}, {"a": "b"})],
    ids=str,
)
def test_labels_of_nodes_replace_the_usual_one(release: Release, given: Object, wanted: Object):
    """Helm would add them to it, were it a default of the values."""
    spec = of_kind(release.render({"agent": given}), "DaemonSet")["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == wanted


@pytest.mark.parametrize("name", ["as it comes", "everything", "no runtime class"])
def test_the_agent_understands_what_it_is_told(release: Release, name: str):
    [container] = of_kind(release.render(CASES[name]), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert container["args"][:3] == ["python", "-m", "gpusquad.agent.kubernetes"]
    options = agent_options().parse_args(container["args"][3:])
    assert options.node == "$(NODE_NAME)"
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(options.folder), str(options.plugin_folder), str(options.pod_resources.parent)} <= mounted
    assert {str(options.server_token.parent), str(options.pod_logs)} <= mounted
    assert (options.simulate or 0, options.metrics_port or 0) == ((4, 0) if name == "everything" else (0, 7071))


@pytest.mark.parametrize("charge", ["auto", 0, 2**29, 2**34])
def test_the_agent_charges_for_contexts_what_it_is_told(release: Release, charge: object):
    values = {"agent": {"sharing": {"contextBytes": charge}}}
    [container] = of_kind(release.render(values), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert agent_options().parse_args(container["args"][3:]).context_bytes == charge


@pytest.mark.parametrize(
    ("agent", "mode", "has_mps"),
    [
        ({}, "enforce", False),
        ({"simulate": 2}, "write-down", False),
        ({"simulate": 2, "sharing": {"mode": "enforce", "folder": "/run/other"}}, "enforce", False),
        ({"sharing": {"mps": True}}, "enforce", True),
        ({"sharing": {"mode": "write-down", "mps": True}}, "write-down", False),
    ],
)
def test_shared_memory_of_cards_is_the_nodes_at_the_same_path(
    release: Release, agent: Object, mode: str, has_mps: bool
):
    spec = of_kind(release.render({"agent": agent}), "DaemonSet")["spec"]["template"]["spec"]
    [container] = spec["containers"]
    options = agent_options().parse_args(container["args"][3:])
    assert (options.sharing, options.mps) == (mode, has_mps)
    nodes = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    mounted = {mount["mountPath"]: nodes.get(mount["name"]) for mount in container["volumeMounts"]}
    folder = str(options.sharing_folder)
    assert mounted.get(folder) == (folder if mode == "enforce" else None)
    assert mounted.get("/dev/shm") == (f"{folder}/shm" if has_mps else None)
    assert (str(options.sharing_shm) if has_mps else None) == mounted.get("/dev/shm")
    assert set(container["securityContext"]["capabilities"].get("add", ())) <= {"MKNOD"}
    assert not spec.get("hostIPC")


@pytest.mark.parametrize("name", ["as it comes", "everything"])
def test_agents_report_to_the_server_under_a_name_that_it_knows(release: Release, name: str):
    objects = release.render(CASES[name])
    config = tomllib.loads(of_kind(objects, "ConfigMap")["data"]["config.toml"])
    spec = of_kind(objects, "DaemonSet")["spec"]["template"]["spec"]
    options = agent_options().parse_args(spec["containers"][0]["args"][3:])
    service, address = of_kind(objects, "Service"), urlsplit(options.server)
    assert address.hostname in config["server"]["hosts"]
    assert address.port == service["spec"]["ports"][0]["port"]
    assert options.report_every == config["kubernetes"]["report_every_s"]
    account = f"system:serviceaccount:{release.namespace}:{spec['serviceAccountName']}"
    assert config["kubernetes"]["agent_account"] == account
    [token] = [volume["projected"]["sources"] for volume in spec["volumes"] if volume["name"] == "server-token"]
    assert token == [{"serviceAccountToken": {"audience": AUDIENCE, "expirationSeconds": 3600, "path": "token"}}]
    assert options.server_token.name == "token"


@pytest.mark.parametrize("agent", [{"enabled": False}, {"reporting": {"enabled": False}}], ids=str)
def test_where_nobody_reports_nobody_needs_to_be_known(release: Release, agent: Object):
    objects = release.render({"agent": agent})
    config = tomllib.loads(of_kind(objects, "ConfigMap")["data"]["config.toml"])
    assert "agent_account" not in config["kubernetes"]
    assert not KNOWS & rights_in(of_kind(objects, "ClusterRole")["rules"])
    assert "server-token" not in yaml.safe_dump_all(objects)


def test_agents_pass_a_network_policy_whoever_else_may(release: Release):
    objects = release.render({"networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]}})
    agent = of_kind(objects, "DaemonSet")["spec"]["selector"]["matchLabels"]
    [rule] = of_kind(objects, "NetworkPolicy")["spec"]["ingress"]
    assert rule["from"] == [{"namespaceSelector": {}}, {"podSelector": {"matchLabels": agent}}]


def test_the_agent_is_privileged_only_where_nothing_else_brings_it_the_cards(release: Release):
    def security(name: str) -> Object:
        return of_kind(release.render(CASES[name]), "DaemonSet")["spec"]["template"]["spec"]["containers"][0][
            "securityContext"
        ]

    assert security("as it comes")["capabilities"] == {"drop": ["ALL"]}
    assert security("everything")["capabilities"]["add"] == ["MKNOD"]
    assert security("no runtime class")["privileged"]


# --- rights ---


def _granted(release: Release, kind: str, ending: str = "", values: Object | None = None) -> set[Right]:
    return rights_in(of_kind(release.render(values), kind, ending)["rules"])


SEEN = {
    *(("", name) for name in ("pods", "nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes")),
    *(("storage.k8s.io", name) for name in ("storageclasses", "csinodes", "csidrivers", "volumeattachments")),
}
TELLS = {Right("", "pods/log", "get"), Right("", "events", "create"), Right("", "events", "patch")}
DOES = {
    Right("", "pods/binding", "create"),
    Right("", "pods/status", "patch"),
    Right("", "pods", "get"),
    Right("", "pods", "delete"),
    Right("", "pods", "patch"),
    *TELLS,
}
KNOWS = {Right("authentication.k8s.io", "tokenreviews", "create")}
LEASES = {Right("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "update")}
SELDOM = {
    Right("", "pods", "get"),  # the answer to a binding got lost
    Right("", "pods", "patch"),  # somebody changed a job
    Right("", "pods/log", "get"),  # or reads what it wrote
    Right("", "events", "patch"),  # the same is told again
}


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
        plane.admin.post(PODS, _pod("lone"))
        plane.admin.post("/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups", _native_group("native", 2))
        for number in range(2):
            plane.admin.post(PODS, _pod(f"native-{number}", schedulingGroup={"podGroupName": "native"}))
        plane.admin.post(JOBS, _job("gang", 4))
        pods = plane.admin.until(PODS, lambda found: _running(found) == 7)
        assert all("gpusquad.io/job" in pod["metadata"]["annotations"] for pod in pods)
        [lone] = [row for row in service.scheduler.unfinished() if row.name == "lone"]
        service.scheduler.cancel(lone.id, ADMIN)
        plane.admin.until(PODS, lambda found: "lone" not in _names(found))
    groups = {("batch", "jobs"), ("scheduling.k8s.io", "podgroups")}
    seen = {Right(group, name, verb) for group, name in SEEN | groups for verb in ("list", "watch")}
    assert seen | (DOES - SELDOM) | LEASES <= _used(audit, "gpusquad")


def test_an_owner_is_deleted_only_where_that_is_allowed(release: Release, tmp_path: Path, audit: Audit):
    release.install({**SMALL, "allowCancelOwners": True})
    with release.service(tmp_path / "home") as service:
        release.plane.admin.post(JOBS, _job("unwanted", 2))
        release.plane.admin.until(PODS, lambda found: _running(found) == 2)
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
        plane.admin.until(PODS, lambda found: _running(found) == 2)
        service.scheduler.update(row.id, Change(estimate_us=7_200_000_000), ADMIN)
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
    marker = _pod("marker")  # taken up after the other, so that that one has been looked at
    release.plane.admin.post(PODS, marker)
    release.plane.admin.until(PODS, lambda found: _running(found) == 1)
    wanted = Right(lookup.group, lookup.plural, "list")
    release.plane.daemons["kube-apiserver"].wait_for("asked", lambda: wanted in _used(audit, "gpusquad"), 20.0)


def _pod_of(lookup: Lookup) -> Object:
    pod = _pod("member")
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


# --- confinement ---


def test_the_server_may_not_delete_pods_that_others_place(release: Release):
    plane, server = release.plane, release.api("gpusquad")
    plane.admin.post(PODS, _pod("theirs", schedulerName="default-scheduler"))
    plane.admin.post(PODS, _pod("ours"))
    with pytest.raises(Refused, match="only touch pods"):
        server.delete(f"{PODS}/theirs")
    server.patch(f"{PODS}/ours", {"metadata": {"annotations": {"gpusquad.io/estimate": "2h"}}})
    for change in ({"metadata": {"labels": {"is": "mine"}}}, {"spec": {"activeDeadlineSeconds": 1}}):
        with pytest.raises(Refused, match="only annotate"):
            server.patch(f"{PODS}/ours", change)
    server.delete(f"{PODS}/ours")


SCHEDULERS_WORD = (WEIGHT, DEADLINE, KNOWN, CARDS, JOB, ATTEMPT)


def test_what_the_scheduler_wrote_on_a_pod_is_not_its_users_to_change(release: Release):
    plane, server, user = release.plane, release.api("gpusquad"), _editor(release)
    plane.admin.post(PODS, _pod("waits"))
    plane.admin.post(PODS, _pod("placed", nodeName="fake-0"))
    plane.admin.post(PODS, _pod("theirs", schedulerName="default-scheduler", nodeName="fake-0"))
    release.plane.daemons["kube-apiserver"].wait_for(
        "following the policies",
        lambda: _is_refused(lambda: user.patch(f"{PODS}/placed?dryRun=All", _says(WEIGHT, "7")), "scheduler's word"),
        30.0,
    )
    for name in SCHEDULERS_WORD:
        said = _says(name, "7")
        server.patch(f"{PODS}/placed", said)
        user.patch(f"{PODS}/placed", {**said, "metadata": {**said["metadata"], "labels": {"is": "his"}}})
        for text in ("1000000", "", None):
            with pytest.raises(Refused, match="scheduler's word"):
                user.patch(f"{PODS}/placed", _says(name, text))
        for pod in ("waits", "theirs"):
            user.patch(f"{PODS}/{pod}", said)
        plane.admin.patch(f"{PODS}/placed", _says(name, None))  # who may bind pods
        with pytest.raises(Refused, match="scheduler's word"):
            user.patch(f"{PODS}/placed", said)
    user.patch(f"{PODS}/placed", _says(ESTIMATE, "2h"))
    user.delete(f"{PODS}/placed", gracePeriodSeconds="0")


def test_what_stands_there_all_the_same_is_put_back(release: Release, service: Service):
    """By somebody who may bind pods, or where the policies are off."""
    api = release.plane.admin
    api.post(PODS, _pod("lone"))
    [pod] = api.until(PODS, lambda found: _running(found) == 1)
    assert pod["metadata"]["annotations"][WEIGHT] == "1.0"
    api.patch(f"{PODS}/lone", _says(WEIGHT, "1000000"))
    service.scheduler.set_tenants()  # looks at all pods
    api.until(PODS, lambda found: found[0]["metadata"]["annotations"][WEIGHT] == "1.0")


def _says(name: str, text: str | None) -> Object:
    return {"metadata": {"annotations": {name: text}}}


def _editor(release: Release) -> Api:
    """Somebody with the rights of most users: Kubernetes' own role `edit`, in one namespace."""
    plane, account = release.plane, {"kind": "ServiceAccount", "name": "somebody", "namespace": release.namespace}
    plane.admin.post(f"/api/v1/namespaces/{release.namespace}/serviceaccounts", {"metadata": {"name": "somebody"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    binding = {"metadata": {"name": "somebody"}, "subjects": [account], "roleRef": role}
    plane.admin.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    return release.api("somebody")


def test_an_agent_may_only_annotate_its_own_node_and_evict_from_it(release: Release):
    plane = release.plane
    node = plane.admin.get("/api/v1/nodes/fake-0")
    agent = release.api("gpusquad-agent", kind="Node", name="fake-0", uid=node["metadata"]["uid"])
    cards = {"metadata": {"annotations": {"test.gpusquad.io/cards": "[]"}}}
    agent.patch("/api/v1/nodes/fake-0", cards)
    for path, change in (
        ("/api/v1/nodes/fake-1", cards),
        ("/api/v1/nodes/fake-0", {"metadata": {"labels": {"is": "mine"}}}),
        ("/api/v1/nodes/fake-0", {"spec": {"unschedulable": True}}),
    ):
        with pytest.raises(Refused, match="an agent may only"):
            agent.patch(path, change)
    plane.admin.post(PODS, _pod("here", nodeName="fake-0"))
    plane.admin.post(PODS, _pod("there", nodeName="fake-1"))
    agent.delete(f"{PODS}/here")
    with pytest.raises(Refused, match="own node"):
        agent.delete(f"{PODS}/there")
    with pytest.raises(Refused, match="own node"):
        release.api("gpusquad-agent").delete(f"{PODS}/there")  # a token of no pod is of no node


# --- shares by annotation ---


@pytest.mark.parametrize("resources", [{}, {"limits": {"cpu": "1"}}, {"requests": {"memory": "1Gi"}}], ids=str)
@pytest.mark.parametrize("said", [{"gpu-fraction": "0.5"}, {"gpu-memory": "4096"}], ids=str)
def test_a_share_by_annotation_alone_gets_a_card(release: Release, said: dict[str, str], resources: Object):
    made = release.plane.admin.post(PODS, _share(said, resources))["spec"]["containers"]
    for kind in ("limits", "requests"):
        assert made[0]["resources"][kind] == resources.get(kind, resources.get("limits", {})) | {GPU: "1"}
        assert GPU not in made[1].get("resources", {}).get(kind, {})


def test_the_container_that_is_named_gets_the_card(release: Release):
    said = {"gpu-fraction": "0.5", "gpu-fraction-container-name": "second"}
    first, second = release.plane.admin.post(PODS, _share(said))["spec"]["containers"]
    assert first["resources"] == {}
    assert second["resources"]["limits"] == {GPU: "1"}


def test_other_pods_are_left_as_they_are(release: Release):
    api = release.plane.admin
    whole = {"limits": {GPU: "2"}}
    assert api.post(PODS, _share({"gpu-fraction": "0.5"}, whole))["spec"]["containers"][0]["resources"]["limits"] == {
        GPU: "2"
    }
    nowhere = _share({"gpu-fraction": "0.5", "gpu-fraction-container-name": "third"}, name="nowhere")
    theirs = _share({"gpu-fraction": "0.5"}, name="theirs", schedulerName="kai-scheduler")
    plain = _share({}, name="plain")
    for pod in (nowhere, theirs, plain):
        assert all(container["resources"] == {} for container in api.post(PODS, pod)["spec"]["containers"])


def _share(said: dict[str, str], resources: Object | None = None, name: str = "share", **spec: object) -> Object:
    pod = _pod(name, **spec)
    pod["metadata"]["annotations"] = said
    second = {"name": "second", "image": "none"}
    pod["spec"]["containers"] = [{"name": "main", "image": "none", "resources": resources or {}}, second]
    return pod


# --- upgrade and uninstall ---


def test_pods_run_on_through_upgrade_and_uninstall(cluster: ControlPlane, release: Release, tmp_path: Path):
    other = Release(cluster, "gpusquad-other", "other")
    other.install()
    with other.service(tmp_path / "home") as service:
        cluster.admin.post(PODS, _pod("lone"))
        cluster.admin.post(JOBS, _job("gang", 4))
        before = cluster.admin.until(PODS, lambda found: _running(found) == 5)
        other.install({"agent": {"slots": 4}, "policy": {"mode": "fair"}})
        cluster.admin.post(PODS, _pod("later"))
        cluster.admin.until(PODS, lambda found: _running(found) == 6)
        assert len(service.scheduler.unfinished()) == 3
    assert other.objects()
    other.uninstall()
    assert other.objects() == ["persistentvolumeclaim/gpusquad-other"]  # the history is kept
    after = {pod["metadata"]["uid"]: pod for pod in cluster.admin.get(PODS)["items"]}
    for pod in before:
        kept = after[pod["metadata"]["uid"]]
        assert kept["status"]["phase"] == "Running"
        assert "deletionTimestamp" not in kept["metadata"]
        assert kept["spec"] == pod["spec"]
        assert {owner["kind"] for owner in kept["metadata"].get("ownerReferences", ())} <= {"Job"}
        assert not [name for name in kept["metadata"].get("finalizers", ()) if "gpusquad" in name]


def test_pods_for_another_scheduler_name_are_placed(cluster: ControlPlane, release: Release, tmp_path: Path):
    named = Release(cluster, "gpusquad-named", "named")
    named.install({**SMALL, "schedulerName": "night-shift"})
    try:
        with named.service(tmp_path / "home"):
            cluster.admin.post(PODS, _pod("for-it", schedulerName="night-shift"))
            cluster.admin.post(PODS, _pod("not-for-it"))
            cluster.admin.until(PODS, lambda found: _running(found) == 1, timeout_s=10.0)
            assert _names(cluster.admin.get(PODS, fieldSelector="spec.nodeName!=")["items"]) == {"for-it"}
    finally:
        named.uninstall()


# --- the guide ---


MANIFESTS = [block for block in blocks(PAGE, "yml") if "apiVersion:" in block.text]
VALUES = [block for block in blocks(PAGE, "yml") if "apiVersion:" not in block.text]


@pytest.mark.parametrize("block", MANIFESTS, ids=str)
def test_every_manifest_of_the_guide_runs(release: Release, service: Service, block: Block):
    for item in yaml.safe_load_all(block.text):
        release.plane.admin.post(_path(item), item)
    wanted = sum(map(_pods_of, yaml.safe_load_all(block.text)))
    assert wanted
    release.plane.admin.until(PODS, lambda found: _running(found) == wanted)


@pytest.mark.parametrize("block", VALUES, ids=str)
def test_every_set_of_values_of_the_guide_is_taken(release: Release, block: Block):
    assert release.render(yaml.safe_load(block.text))


def _path(item: Object) -> str:
    plural = f"{item['kind'].lower()}s"
    version = item["apiVersion"]
    return f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/default/{plural}"


def _pods_of(item: Object) -> int:
    return item["spec"]["completions"] if item["kind"] == "Job" else int(item["kind"] == "Pod")


# --- small things ---


def _pod(name: str, **spec: object) -> Object:
    container = {"name": "main", "image": "none", "resources": {"limits": {GPU: "1"}}}
    content = {"schedulerName": "gpusquad", "restartPolicy": "Never", "containers": [container], **spec}
    return {"metadata": {"name": name}, "spec": content}


def _job(name: str, pods: int, **spec: object) -> Object:
    template = {"spec": _pod(name, **spec)["spec"]}
    return {
        "metadata": {"name": name},
        "spec": {"completions": pods, "parallelism": pods, "completionMode": "Indexed", "template": template},
    }


def _native_group(name: str, least: int) -> Object:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": least}}}}


def _cards(node: int) -> str:
    card = {"model": "NVIDIA H100", "memory_bytes": 80 << 30, "sms": 132, "domain": "", "ok": True}
    return json.dumps([{"id": f"GPU-{node}-{number}", **card} for number in range(CARDS_EACH)])


def _running(pods: list[Object]) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def _names(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def _used(audit: Audit, account: str) -> set[Right]:
    """What it has asked for so far; nothing of that was refused for want of a right."""
    requests = list(audit.requests(f"system:serviceaccount:gpusquad:{account}"))
    assert [request for request in requests if request.code == 403] == []
    return {request.right for request in requests}
