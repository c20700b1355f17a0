"""``gpusquad measure`` in a pod: a real kubelet, our device plugin and our scheduler, workers in a container.

The card is simulated and NVIDIA's library a stub; the workloads only sleep. All else is as on a cluster with GPUs.
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
class Stage:
    plane: ControlPlane
    kubeconfig: Path
    out: Path

    def start(self, *more: str, image: str = PYTHON_IMAGE, namespace: str = TEAM, workloads: str = f"{QUICK},{OTHER}",
              repeats: int = 2) -> Process:  # fmt: skip
        """The command line of somebody who may do what the guide says and no more."""
        words = ["measure", "--engine", "kubernetes", "--image", image, "--namespace", namespace,
                 "--workloads", workloads, "--window", "50ms", "--repeats", str(repeats), "--out", str(self.out),
                 *more]  # fmt: skip
        path = f"{self.plane.programs['kubectl'].parent}:{os.environ['PATH']}"
        env = {"KUBECONFIG": str(self.kubeconfig), "PATH": path, "PYTHONPATH": str(REPOSITORY / "src"),
               "GPUSQUAD_HOME": str(self.out), "HOME": str(self.out), "COLUMNS": "400", "NO_COLOR": "1"}  # fmt: skip
        command = [sys.executable, "-m", "gpusquad", *words]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def pod(self, phase: str) -> Object:
        """The only one, once it is so."""
        [found] = self.plane.admin.until(PODS, lambda pods: [pod["status"].get("phase") for pod in pods] == [phase])
        return found

    def inside(self, pod: Object, *argv: str) -> str:
        return self.plane.kubectl("-n", TEAM, "exec", pod["metadata"]["name"], "--", *argv)

    def nothing_is_left(self) -> None:
        self.plane.admin.until(PODS, lambda pods: not pods)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    need_node()
    if reason := missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    with contextlib.ExitStack() as exits:
        plane = exits.enter_context(ControlPlane(Settings(real_node=True)))
        assert plane.node is not None
        image = plane.folder / "python.tar"
        write_python_image(image)
        plane.node.import_image(image)
        kubeconfig = _somebody(plane)
        exits.enter_context(agent_on(plane, 2))
        exits.enter_context(serving(plane, plane.folder / "home"))
        yield Stage(plane, kubeconfig, tmp_path_factory.mktemp("series"))


def _somebody(plane: ControlPlane) -> Path:
    """With the role of the guide in one namespace, and no other right."""
    plane.admin.post("/api/v1/namespaces", {"metadata": {"name": TEAM}})
    accounts = f"/api/v1/namespaces/{TEAM}/serviceaccounts"
    plane.admin.until(accounts, lambda found: any(one["metadata"]["name"] == "default" for one in found))
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


def _ended(process: Process, code: int) -> str:
    """What it said to people."""
    said, complaint = process.communicate(timeout=WAIT_S)
    assert process.returncode == code, f"{said}\n{complaint}"
    return complaint


def test_a_series_in_a_pod_that_gpusquad_placed(stage: Stage):
    process = stage.start()
    pod = stage.pod("Running")
    assert pod["spec"]["nodeName"] == RealNode.name
    pinned = json.loads(pod["metadata"]["annotations"][CARDS])
    [card] = pinned["main"]
    assert f"GPUSQUAD_CARDS={card}" in stage.inside(pod, "env").splitlines()
    _ended(process, 0)
    kept = series_files.latest(stage.out)
    assert kept is not None
    measured = kept.measured
    assert (measured.setting.gpu, measured.setting.driver) == ("Stub", "1.2.3")
    assert {solo.workload for solo in measured.solos} == {QUICK, OTHER}
    assert {run.workloads for run in measured.co_runs} == {(QUICK, QUICK), (QUICK, OTHER), (OTHER, OTHER)}
    assert all(solo.steps_per_s.mean > 0 and solo.power_w == 70 for solo in measured.solos)
    assert all(len(samples) == 2 for run in measured.co_runs for samples in run.samples)
    stage.nothing_is_left()


@pytest.mark.parametrize(("told_to_end", "node", "phase"), [
    (signal.SIGTERM, RealNode.name, "Running"), (signal.SIGINT, "nowhere", "Pending"),
])  # fmt: skip
def test_a_run_that_is_interrupted_leaves_no_pod(stage: Stage, told_to_end: signal.Signals, node: str, phase: str):
    process = stage.start("--node", node, repeats=1000)
    pod = stage.pod(phase)
    if phase == "Running":
        _until(lambda: "measure.worker" in stage.inside(pod, "ps"))
    process.send_signal(told_to_end)
    assert "use --resume" in _ended(process, INTERRUPTED)
    stage.nothing_is_left()


def test_of_a_run_that_is_killed_nobody_works_on(stage: Stage):
    """Its pod then ends by itself, but not within the time of a test."""
    process = stage.start(repeats=1000)
    pod = stage.pod("Running")
    _until(lambda: "measure.worker" in stage.inside(pod, "ps"))
    process.kill()
    process.communicate(timeout=WAIT_S)
    _until(lambda: not re.search(r"measure\.(worker|card)", stage.inside(pod, "ps")))
    stage.plane.admin.delete(f"{PODS}/{pod['metadata']['name']}")
    stage.nothing_is_left()


def test_a_workload_that_the_image_does_not_have(stage: Stage):
    complaint = _ended(stage.start(workloads=f"{HERE}:absent", repeats=1), 2)
    assert f"'{HERE}:absent' cannot be loaded" in complaint
    stage.nothing_is_left()


@pytest.mark.parametrize(("image", "told"), [
    ("localhost/gpusquad/none:1", r"cannot run: ImagePullBackOff: .*its image is localhost/gpusquad/none:1"),
    (IMAGE, r"cannot run: it ended: .*python3.* not found"),
])  # fmt: skip
def test_an_image_that_does_not_do(stage: Stage, image: str, told: str):
    complaint = _ended(stage.start(image=image), 2)
    assert re.search(told, complaint), complaint
    stage.nothing_is_left()


def test_a_namespace_without_rights(stage: Stage):
    complaint = _ended(stage.start(namespace="default"), 2)
    assert "namespace: you may not create pods or get pods or delete pods or create pods/exec in 'default'" in complaint
    assert stage.plane.admin.get("/api/v1/namespaces/default/pods")["items"] == []


def _until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.2)
