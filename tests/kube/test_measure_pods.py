"""Tests of ``gpusquad measure`` in a pod, with a real kubelet, the device plugin and the scheduler.

The card is simulated, NVIDIA's library is a stub and the workloads only sleep. The rest is as on a cluster with GPUs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gpusquad.measure import series_files
from tests.kube.api import Object
from tests.kube.image import IMAGE
from tests.kube.node import RealNode, need_node
from tests.kube.placements import CARDS, agent_on
from tests.kube.plane import ControlPlane, Settings
from tests.kube.python_image import PYTHON_IMAGE, missing, write_python_image
from tests.kube.service import serving
from tests.measure.fakes import HERE, OTHER, QUICK

REPOSITORY = Path(__file__).parents[2]
TEAM = "team"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{TEAM}"
WAIT_S = 60.0
INTERRUPTED = 130
Process = subprocess.Popen[str]


@dataclass(frozen=True)
class MeasureCluster:
    plane: ControlPlane
    kubeconfig: Path
    out: Path

    def start(self, *options: str, image: str = PYTHON_IMAGE, namespace: str = TEAM,
              workloads: str = f"{QUICK},{OTHER}", repeats: int = 2) -> Process:  # fmt: skip
        """Start the command as a user with only the rights that the guide lists."""
        arguments = ["measure", "--engine", "kubernetes", "--image", image, "--namespace", namespace,
                 "--workloads", workloads, "--window", "50ms", "--repeats", str(repeats), "--out", str(self.out),
                 *options]  # fmt: skip
        path = f"{self.plane.programs['kubectl'].parent}:{os.environ['PATH']}"
        env = {"KUBECONFIG": str(self.kubeconfig), "PATH": path, "PYTHONPATH": str(REPOSITORY / "src"),
               "GPUSQUAD_HOME": str(self.out), "HOME": str(self.out), "COLUMNS": "400", "NO_COLOR": "1"}  # fmt: skip
        command = [sys.executable, "-m", "gpusquad", *arguments]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def pod(self, phase: str) -> Object:
        """Wait until the only pod is in this phase, and return it."""
        [found] = self.plane.admin.until(PODS, lambda pods: [pod["status"].get("phase") for pod in pods] == [phase])
        return found

    def run_in_pod(self, pod: Object, *argv: str) -> str:
        return self.plane.kubectl("-n", TEAM, "exec", pod["metadata"]["name"], "--", *argv)

    def wait_until_no_pods(self) -> None:
        self.plane.admin.until(PODS, lambda pods: not pods)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasureCluster]:
    need_node()
    if reason := missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    with contextlib.ExitStack() as exits:
        plane = exits.enter_context(ControlPlane(Settings(real_node=True)))
        assert plane.node is not None
        image = plane.folder / "python.tar"
        write_python_image(image)
        plane.node.import_image(image)
        kubeconfig = _make_user(plane)
        exits.enter_context(agent_on(plane, 2))
        exits.enter_context(serving(plane, plane.folder / "home"))
        yield MeasureCluster(plane, kubeconfig, tmp_path_factory.mktemp("series"))


def _make_user(plane: ControlPlane) -> Path:
    """Return the kubeconfig of a user with the role of the guide in one namespace and no other rights."""
    plane.admin.post("/api/v1/namespaces", {"metadata": {"name": TEAM}})
    accounts = f"/api/v1/namespaces/{TEAM}/serviceaccounts"
    plane.admin.until(accounts, lambda found: any(account["metadata"]["name"] == "default" for account in found))
    plane.admin.post(accounts, {"metadata": {"name": "somebody"}})
    [text] = re.findall(r"```yml\n(.*?)```", (REPOSITORY / "docs/guide/interference.md").read_text(), re.DOTALL)
    role = yaml.safe_load(text)
    plane.admin.post(f"{RBAC}/roles", role)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role["metadata"]["name"]}
    subject = {"kind": "ServiceAccount", "name": "somebody", "namespace": TEAM}
    binding = {"metadata": {"name": "somebody"}, "roleRef": reference, "subjects": [subject]}
    plane.admin.post(f"{RBAC}/rolebindings", binding)
    token = plane.admin.post(f"{accounts}/somebody/token", {"spec": {}})["status"]["token"]
    content = json.loads(plane.kubeconfig().read_text())
    content["users"][0]["user"] = {"token": token}
    path = plane.folder / "somebody.kubeconfig"
    path.touch(0o600)
    path.write_text(json.dumps(content))
    return path


def _wait_for_exit(process: Process, code: int) -> str:
    """Wait for the process to end with this exit code, and return its error output."""
    output, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == code, f"{output}\n{errors}"
    return errors


def test_series_is_measured_in_a_pod_on_its_pinned_card(cluster: MeasureCluster):
    process = cluster.start()
    pod = cluster.pod("Running")
    assert pod["spec"]["nodeName"] == RealNode.name
    pinned = json.loads(pod["metadata"]["annotations"][CARDS])
    [card] = pinned["main"]
    assert f"GPUSQUAD_CARDS={card}" in cluster.run_in_pod(pod, "env").splitlines()
    _wait_for_exit(process, 0)
    series = series_files.latest(cluster.out)
    assert series is not None
    measured = series.measured
    assert (measured.setting.gpu, measured.setting.driver) == ("Stub", "1.2.3")
    assert {solo.workload for solo in measured.solos} == {QUICK, OTHER}
    assert {run.workloads for run in measured.co_runs} == {(QUICK, QUICK), (QUICK, OTHER), (OTHER, OTHER)}
    assert all(solo.steps_per_s.mean > 0 and solo.power_w == 70 for solo in measured.solos)
    assert all(len(samples) == 2 for run in measured.co_runs for samples in run.samples)
    cluster.wait_until_no_pods()


@pytest.mark.parametrize(("interrupt_signal", "node", "phase"), [
    (signal.SIGTERM, RealNode.name, "Running"), (signal.SIGINT, "nowhere", "Pending"),
])  # fmt: skip
def test_interrupted_run_leaves_no_pod(
    cluster: MeasureCluster, interrupt_signal: signal.Signals, node: str, phase: str
):
    process = cluster.start("--node", node, repeats=1000)
    pod = cluster.pod(phase)
    if phase == "Running":
        _wait_until(lambda: "measure.worker" in cluster.run_in_pod(pod, "ps"))
    process.send_signal(interrupt_signal)
    assert "use --resume" in _wait_for_exit(process, INTERRUPTED)
    cluster.wait_until_no_pods()


def test_workers_end_when_the_run_is_killed(cluster: MeasureCluster):
    """The pod then ends by itself too, but later than a test can wait."""
    process = cluster.start(repeats=1000)
    pod = cluster.pod("Running")
    _wait_until(lambda: "measure.worker" in cluster.run_in_pod(pod, "ps"))
    process.kill()
    process.communicate(timeout=WAIT_S)
    _wait_until(lambda: not re.search(r"measure\.(worker|card)", cluster.run_in_pod(pod, "ps")))
    cluster.plane.admin.delete(f"{PODS}/{pod['metadata']['name']}")
    cluster.wait_until_no_pods()


def test_workload_missing_in_the_image_is_reported(cluster: MeasureCluster):
    errors = _wait_for_exit(cluster.start(workloads=f"{HERE}:absent", repeats=1), 2)
    assert f"'{HERE}:absent' cannot be loaded" in errors
    cluster.wait_until_no_pods()


@pytest.mark.parametrize(("image", "pattern"), [
    ("localhost/gpusquad/none:1", r"cannot run: ImagePullBackOff: .*its image is localhost/gpusquad/none:1"),
    (IMAGE, r"cannot run: it ended: .*python3.* not found"),
])  # fmt: skip
def test_unusable_image_is_reported(cluster: MeasureCluster, image: str, pattern: str):
    errors = _wait_for_exit(cluster.start(image=image), 2)
    assert re.search(pattern, errors), errors
    cluster.wait_until_no_pods()


def test_namespace_without_rights_is_reported(cluster: MeasureCluster):
    errors = _wait_for_exit(cluster.start(namespace="default"), 2)
    assert "namespace: you may not create pods or get pods or delete pods or create pods/exec in 'default'" in errors
    assert cluster.plane.admin.get("/api/v1/namespaces/default/pods")["items"] == []


def _wait_until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.2)
