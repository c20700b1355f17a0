"""Tests of pod conditions, events and ``kubectl gpusquad`` on a real control plane."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.kube.api import Object, Refused
from tests.kube.daemons import Daemon
from tests.kube.plane import ControlPlane, Settings
from tests.kube.service import serving

RUN_TIME = "fake.gpusquad/run-time"
DEFAULT = "/api/v1/namespaces/default"
RULES = [
    {"apiGroups": [""], "resources": ["pods", "nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes"],
     "verbs": ["list", "watch"]},
    {"apiGroups": ["storage.k8s.io"],
     "resources": ["storageclasses", "csinodes", "csidrivers", "volumeattachments"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete"]},
    # For conditions and events.
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
]  # fmt: skip


@pytest.fixture(scope="module")
def small() -> Iterator[ControlPlane]:
    """Control plane with two fake nodes of four cards."""
    with ControlPlane(Settings(fake_nodes=2, gpus_per_node=4, rules=RULES)) as plane:
        yield plane


@pytest.fixture(autouse=True)
def _no_pods_are_left(small: ControlPlane) -> Iterator[None]:
    yield
    for kind in ("pods", "events"):
        small.admin.delete(f"{DEFAULT}/{kind}", gracePeriodSeconds="0")
    small.admin.until(f"{DEFAULT}/pods", lambda pods: not pods)


def make_pod(plane: ControlPlane, name: str, gpus: int = 1, run: str = "", group: str = "", size: int = 0,
         limit: str = "", **extra_spec: object) -> None:  # fmt: skip
    annotations = {RUN_TIME: run, "gpusquad.io/estimate": run} if run else {}
    if limit:
        annotations |= {"gpusquad.io/limit": limit}
    if group:
        annotations |= {"gpusquad.io/group": group, "gpusquad.io/group-size": str(size)}
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"schedulerName": "gpusquad", "restartPolicy": "Never", "containers": [container], **extra_spec}
    plane.admin.post(f"{DEFAULT}/pods", {"metadata": {"name": name, "annotations": annotations}, "spec": spec})


def wait_for(plane: ControlPlane, name: str, condition: Callable[[Object], bool]) -> Object:
    [pod] = plane.admin.until(
        f"{DEFAULT}/pods", lambda pods: any(map(condition, pods)), fieldSelector=f"metadata.name={name}"
    )
    return pod


def scheduled_condition(pod: Object) -> Object:
    conditions = pod["status"].get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == "PodScheduled"), {})


def wait_for_event(plane: ControlPlane, pod: str, reason: str) -> Object:
    selector = f"involvedObject.name={pod},reason={reason}"
    events = plane.admin.until(f"{DEFAULT}/events", lambda found: bool(found), fieldSelector=selector)
    assert len(events) == 1
    return events[0]


def test_pending_pod_shows_reason_and_queue_position(small: ControlPlane, tmp_path: Path) -> None:
    """The service runs as a user with only the rights in RULES."""
    with serving(small, tmp_path, "gpusquad"):
        for number in range(2):
            make_pod(small, f"fill-{number}", 4, "60s")
        wait_for(small, "fill-1", lambda pod: pod["spec"].get("nodeName", "") != "")
        make_pod(small, "late", 4, "10s")
        pod = wait_for(small, "late", lambda pod: scheduled_condition(pod).get("reason") == "Unschedulable")
        message = scheduled_condition(pod)["message"]
        assert "needs 4 idle cards" in message
        assert "0 are idle" in message
        assert "position 1 in the queue" in message
        event = wait_for_event(small, "late", "FailedScheduling")
        assert (event["type"], event["message"], event["source"]) == ("Warning", message, {"component": "gpusquad"})
        assert wait_for_event(small, "fill-0", "Scheduled")["message"].startswith(
            "Successfully assigned default/fill-0"
        )
        assert message in small.kubectl("describe", "pod", "late")


def test_unschedulable_pods_show_their_reason(small: ControlPlane, tmp_path: Path) -> None:
    with serving(small, tmp_path, "gpusquad"):
        make_pod(small, "huge", 99)
        make_pod(small, "half-0", 1, group="half", size=3)
        make_pod(small, "gated", 1, schedulingGates=[{"name": "test/gate"}])
        huge = wait_for(small, "huge", lambda pod: scheduled_condition(pod) != {})
        assert "requests 99 GPUs on one node; the largest node has 4" in scheduled_condition(huge)["message"]
        half = wait_for(small, "half-0", lambda pod: scheduled_condition(pod) != {})
        assert "gang half: waiting for 2 of 3 pods" in scheduled_condition(half)["message"]
        wait_for_event(small, "half-0", "FailedScheduling")
        gated = small.admin.get(f"{DEFAULT}/pods/gated")
        assert scheduled_condition(gated)["reason"] == "SchedulingGated"
        assert not small.admin.get(f"{DEFAULT}/events", fieldSelector="involvedObject.name=gated")["items"]


def test_reserved_gang_shows_its_nominated_nodes_until_it_is_bound(small: ControlPlane, tmp_path: Path) -> None:
    with serving(small, tmp_path, "gpusquad"):
        make_pod(small, "first", 2, "8s")
        wait_for(small, "first", lambda pod: pod["spec"].get("nodeName", "") != "")
        names = [f"big-{number}" for number in range(4)]
        for name in names:
            make_pod(small, name, 2, "3s", group="big", size=4)
        nominated = {
            name: wait_for(small, name, lambda pod: "nominatedNodeName" in pod["status"])["status"]["nominatedNodeName"]
            for name in names
        }
        assert sorted(nominated.values()) == ["fake-0", "fake-0", "fake-1", "fake-1"]
        event = wait_for_event(small, "big-0", "Reserved")
        assert "gang big (4 pods): 8 GPUs reserved from" in event["message"]
        assert "on fake-0 (2), fake-1 (2)" in event["message"]
        bound = {
            name: wait_for(small, name, lambda pod: pod["spec"].get("nodeName", "") != "")["spec"]["nodeName"]
            for name in names
        }
        assert bound == nominated
        ended = wait_for(small, "big-0", lambda pod: scheduled_condition(pod).get("status") == "True")
        assert "message" not in scheduled_condition(ended)


def test_pod_past_its_time_limit_gets_a_stopped_event(small: ControlPlane, tmp_path: Path) -> None:
    with serving(small, tmp_path, "gpusquad"):
        make_pod(small, "long", 1, "60s", limit="1s")
        event = wait_for_event(small, "long", "Stopped")
        assert event["type"] == "Warning"
        assert "limit" in event["message"]


def test_dry_run_writes_only_events(small: ControlPlane, tmp_path: Path) -> None:
    with serving(small, tmp_path, "gpusquad", dry_run=True):
        make_pod(small, "one", 1, "5s")
        make_pod(small, "huge", 99)
        assert "dry run: Would assign default/one to fake-" in wait_for_event(small, "one", "WouldSchedule")["message"]
        assert "99 GPUs" in wait_for_event(small, "huge", "WouldWait")["message"]
        for name in ("one", "huge"):
            pod = small.admin.get(f"{DEFAULT}/pods/{name}")
            assert "nodeName" not in pod["spec"]
            assert scheduled_condition(pod) == {}


# -- kubectl gpusquad --------------------------------------------------------------------------------


def address_of_this_machine() -> str:
    """Return an address that is not loopback, because API servers do not proxy to loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            address = probe.getsockname()[0]
        except OSError:
            address = "127.0.0.1"
    if address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    return address


@contextlib.contextmanager
def service_behind_api_server(plane: ControlPlane) -> Iterator[Path]:
    """Run a service that the API server reaches as gpusquad/gpusquad:http, and yield its home folder."""
    host, home = address_of_this_machine(), plane.folder / "plugin-home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[cluster]\nengine = "kubernetes"\n[policy]\nmode = "predictive-fifo"\n'
        f'[server]\nhost = "{host}"\nport = 0\nhosts = ["gpusquad.gpusquad.svc"]\n'
        f'[kubernetes]\nlease = ""\nkubeconfig = "{plane.kubeconfig("gpusquad")}"\n'
    )
    command = [sys.executable, "-m", "gpusquad", "serve"]
    daemon = Daemon("plugin-service", command, plane.folder, env={**os.environ, "GPUSQUAD_HOME": str(home)})
    daemon.start()
    try:
        daemon.wait_for("ready", (home / "server.json").exists, 60)
        port = int(json.loads((home / "server.json").read_text())["url"].rpartition(":")[2])
        publish(plane, host, port)
        yield home
    finally:
        daemon.stop()


def publish(plane: ControlPlane, host: str, port: int) -> None:
    with contextlib.suppress(Refused):
        plane.admin.post("/api/v1/namespaces", {"metadata": {"name": "gpusquad"}})
    make_service_pod(plane, host)
    spec = {"ports": [{"name": "http", "port": 80, "targetPort": port}]}
    plane.admin.post("/api/v1/namespaces/gpusquad/services", {"metadata": {"name": "gpusquad"}, "spec": spec})
    plane.admin.post("/apis/discovery.k8s.io/v1/namespaces/gpusquad/endpointslices", {
        "metadata": {"name": "gpusquad", "labels": {"kubernetes.io/service-name": "gpusquad"}},
        "addressType": "IPv4", "endpoints": [{
            "addresses": [host], "conditions": {"ready": True},
            "targetRef": {"kind": "Pod", "namespace": "gpusquad", "name": "gpusquad"},
        }],
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
    })  # fmt: skip


def make_service_pod(plane: ControlPlane, host: str) -> None:
    """Create a pod with the service's address, because API servers proxy only to addresses of pods."""
    folder = "/api/v1/namespaces/gpusquad"
    plane.admin.until(f"{folder}/serviceaccounts", lambda found: bool(found))
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "x"}]}
    plane.admin.post(f"{folder}/pods", {"metadata": {"name": "gpusquad"}, "spec": spec})
    plane.admin.patch(f"{folder}/pods/gpusquad/status", {"status": {"podIP": host, "podIPs": [{"ip": host}]}})


class Plugin:
    """kubectl with the gpusquad plugin on its PATH."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._kubectl = str(plane.programs["kubectl"])
        script = folder / "kubectl-gpusquad"
        script.write_text(f"#!{sys.executable}\nfrom gpusquad.cli.kubectl import main\nmain()\n")
        script.chmod(0o755)
        self._environment = {
            "PATH": f"{folder}:{os.environ['PATH']}", "KUBECONFIG": str(plane.kubeconfig()), "HOME": str(folder),
        }  # fmt: skip

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [self._kubectl, "gpusquad", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, env=self._environment | environment, check=False
        )

    def until(self, text: str, *arguments: str, **environment: str) -> str:
        """Repeat the command until its output contains ``text``. The service sees pods later than the API server."""
        deadline = time.monotonic() + 30
        while True:
            process = self(*arguments, **environment)
            if process.returncode == 0 and text in process.stdout:
                return process.stdout
            assert time.monotonic() < deadline, f"{process.stdout}\n{process.stderr}"
            time.sleep(0.5)


def test_kubectl_plugin_reaches_the_service_through_the_api_server(small: ControlPlane, tmp_path: Path) -> None:
    plugin = Plugin(small, tmp_path)
    with service_behind_api_server(small) as home:
        token = {"GPUSQUAD_TOKEN": (home / "token").read_text().strip()}
        for number in range(2):
            make_pod(small, f"fill-{number}", 4, "120s")
        wait_for(small, "fill-1", lambda pod: pod["spec"].get("nodeName", "") != "")
        make_pod(small, "late", 4, "10s")
        output = plugin.until("late (", "why", "late", "-n", "default", **token)
        assert "position 1 in the queue" in output
        assert "needs 4 idle cards" in output
        answer = json.loads(plugin("why", "pod/late", "--json", **token).stdout)
        assert (answer["state"], answer["position"]) == ("pending", 1)
        assert "starts" in plugin("when", "late", **token).stdout
        assert "late" in plugin("queue", **token).stdout
        job = json.loads(plugin("job", "fill-0", "--json", **token).stdout)
        pod = small.admin.get(f"{DEFAULT}/pods/fill-0")
        assert job["id"] == pod["metadata"]["annotations"]["gpusquad.io/job"]
        assert plugin("why", "nobody", **token).returncode == 3
        _check_fallback(plugin, small, {})
    _check_fallback(plugin, small, token)


def _check_fallback(plugin: Plugin, plane: ControlPlane, token: Mapping[str, str]) -> None:
    """Check the answer from the pod's own status, used without a token or without a service."""
    wait_for(plane, "late", lambda pod: scheduled_condition(pod) != {})
    process = plugin("why", "late", **token)
    assert process.returncode == 0, process.stderr
    assert "Unschedulable: needs 4 idle cards" in process.stdout
    assert "the service did not answer" in process.stderr
    answer = json.loads(plugin("why", "late", "--json", **token).stdout)
    assert answer["condition"]["reason"] == "Unschedulable"
    assert "FailedScheduling" in {event["reason"] for event in answer["events"]}
