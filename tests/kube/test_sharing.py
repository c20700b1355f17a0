"""Tests of card sharing on a real kubelet: what the agent mounts enforces the memory quota of a container.

The containers use a stand-in driver. The shim, the card daemon and the agent are real.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpusquad.gpu.daemon.wire import SOCKET, ask
from tests.gpu.standin.build import build
from tests.kube.api import Object
from tests.kube.node import need_node
from tests.kube.placements import ENDED, GPU, Agent, agent_on, clear, make, place_at_once, wait_for
from tests.kube.plane import ControlPlane, Settings
from tests.kube.pods import PODS
from tests.kube.python_image import PYTHON_IMAGE, missing, write_python_image

MIB = 2**20
WAIT_S = 90.0
STANDIN = Path(__file__).parents[1] / "gpu" / "standin"
CARD, OTHER = "SIM-0", "SIM-1"
LIBRARY = "/usr/lib/gpusquad/libgpusquad.so"
ENV = {"LD_LIBRARY_PATH": "/driver:/opt/lib", "STANDIN_CARD": "/card/card", "STANDIN_MEMORY": str(4096 * MIB)}
PRELUDE = """
import json, os, sys, time
sys.path.insert(0, "/standin")
from client import Cuda, CudaError
cuda = Cuda()
def take(mebibytes):
    try:
        cuda.alloc(mebibytes << 20)
    except CudaError as error:
        return error.code
    return 0
def tell(**values):
    print(json.dumps(values), flush=True)
"""
HOLD_MEMORY = PRELUDE + "tell(total=cuda.memory()[1] >> 20, fits=take({0}), over=take({1}))\ntime.sleep(1000)"
IGNORE_SIGTERM = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
number = cuda.number()
tell(works=True)
while True:
    cuda.launch("add", number)
"""
OUT_OF_MEMORY = 2
FAKE_MPS = """#!/bin/sh
# Starts nothing, and says that all is well.
[ "$1" = -d ] && exec sh -c 'echo $$ > "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"'
cat > /dev/null
"""


class Node:
    """The real node, its agent and its card daemons."""

    def __init__(self, plane: ControlPlane, agent: Agent, driver: Path) -> None:
        self.plane, self.agent, self._driver = plane, agent, driver
        self.sharing = plane.folder / "run"
        (plane.folder / "card").mkdir(exist_ok=True)

    def pod(self, program: str, memory: str = "", card: str = CARD, annotations: Mapping[str, str] | None = None,
            shell: Sequence[str] = (), **spec: Any) -> str:  # fmt: skip
        """Create a pod that is bound to the card, with ``memory`` as its quota."""
        limits = {GPU: "1", **({"gpusquad.io/gpu-memory": memory} if memory else {})}
        folders = {"driver": self._driver, "standin": STANDIN, "card": self.plane.folder / "card", "dash": "/bin/dash"}
        container: Object = {
            "name": "main", "image": PYTHON_IMAGE, "imagePullPolicy": "Never", "resources": {"limits": limits},
            "command": [*(shell or ("/bin/python3", "-c")), program],
            "env": [{"name": name, "value": value} for name, value in ENV.items()],
            "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in folders],
        }  # fmt: skip
        volumes = [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()]
        name = make(self.plane, [container], volumes=volumes, **spec)
        self.plane.admin.patch(f"{PODS}/{name}", {"metadata": {"annotations": dict(annotations or {})}})
        place_at_once(self.plane, {name: {"main": [card]}})
        return name

    def printed(self, pod: str) -> dict[str, Any]:
        """Return the JSON line that the pod's program printed."""
        wait_for(self.plane, [pod], ["Running", *ENDED])
        return self.until(lambda: self._line(pod))

    def _line(self, pod: str) -> dict[str, Any] | None:
        status = self.plane.admin.get(f"{PODS}/{pod}")["status"]
        refused = status["phase"] == "Failed" and not status.get("containerStatuses")
        log = [] if refused else self.log(pod)
        printed = next((json.loads(line) for line in log if line.startswith("{")), None)
        assert printed or status["phase"] not in ENDED, f"{log}\n{status}\n{self.agent.daemon.log_tail()}"
        return printed

    def log(self, pod: str) -> list[str]:
        return self.plane.admin.text(f"{PODS}/{pod}/log").splitlines()

    def run_in_pod(self, pod: str, program: str) -> dict[str, Any]:
        """Run another process in the container, with a clean environment."""
        variables = [f"{name}={value}" for name, value in ENV.items()]
        output = self.plane.kubectl(
            "exec", pod, "--", "/bin/env", "-i", *variables, "/bin/python3", "-c", PRELUDE + program
        )
        return json.loads(output.splitlines()[-1])

    def ask(self, card: str = CARD, **request: str) -> dict[str, Any] | None:
        """Send a request to the card daemon. Return None if none answers."""
        try:
            [socket] = self.sharing.glob(f"boot-*/cards/{card}/{SOCKET}")
            return ask(socket, request)
        except (ValueError, OSError):
            return None

    def used_mebibytes(self, card: str = CARD) -> list[int]:
        found = self.ask(card, do="status") or {"tenants": []}
        return sorted(gpu_client["used_bytes"] // MIB for gpu_client in found["tenants"])

    def gpu_client(self, pod: Object) -> dict[str, Any]:
        """Return the pod's GPU client from the daemon's status, or an empty dict."""
        gpu_clients = (self.ask(do="status") or {"tenants": []})["tenants"]
        return next((client for client in gpu_clients if client["id"] == f"{pod['metadata']['uid']}/main"), {})

    def until(self, poll: Callable[[], Any]) -> Any:
        deadline_s = time.monotonic() + WAIT_S
        while not (found := poll()):
            assert time.monotonic() < deadline_s, self.agent.daemon.log_tail()
            time.sleep(0.1)
        return found


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    need_node()
    if reason := missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    with ControlPlane(Settings(real_node=True)) as plane:
        assert plane.node is not None
        image = plane.folder / "python.tar"
        write_python_image(image)
        plane.node.import_image(image)
        programs = plane.folder / "programs"
        programs.mkdir()
        (programs / "nvidia-cuda-mps-control").write_text(FAKE_MPS)
        (programs / "nvidia-cuda-mps-control").chmod(0o755)
        options = ["--sharing=enforce", f"--sharing-folder={plane.folder / 'run'}", "--mps"]
        with agent_on(plane, 2, slots=4, more=options, path=f"{programs}:/usr/bin:/bin") as agent:
            node_on_plane = Node(plane, agent, build(tmp_path_factory.mktemp("driver")))
            yield node_on_plane
        for card in (CARD, OTHER):  # in a pod these daemons would have ended with the agent
            node_on_plane.ask(card, do="stop")


def test_two_pods_on_one_card_have_separate_quotas(node: Node):
    small, large = node.pod(HOLD_MEMORY.format(100, 200), "256Mi"), node.pod(HOLD_MEMORY.format(200, 400), "512Mi")
    assert node.printed(small) == {"total": 256, "fits": 0, "over": OUT_OF_MEMORY}
    assert node.printed(large) == {"total": 512, "fits": 0, "over": OUT_OF_MEMORY}
    assert node.used_mebibytes() == [100, 200]
    # Other processes of the container count as well, and removing environment variables does not avoid the quota.
    assert node.run_in_pod(small, "tell(more=take(100), over=take(100))") == {"more": 0, "over": OUT_OF_MEMORY}
    node.until(lambda: node.used_mebibytes() == [100, 200])
    clear(node.plane, [small, large])
    node.until(lambda: not (node.ask(do="status") or {}).get("tenants"))
    assert not node.agent.lines("refused")


def test_restarted_agent_adopts_running_clients_of_a_killed_daemon(node: Node):
    """As when the agent's pod is replaced, which ends all of its processes."""
    pod = node.pod(HOLD_MEMORY.format(100, 200), "256Mi")
    node.printed(pod)
    node.agent.daemon.stop()
    hello = node.ask(do="hello")
    assert hello is not None
    os.kill(hello["pid"], signal.SIGKILL)
    node.until(lambda: node.ask(do="hello") is None)
    assert node.run_in_pod(pod, "tell(more=take(100), over=take(100))") == {"more": 0, "over": OUT_OF_MEMORY}
    node.agent.start()
    [gpu_client] = node.until(lambda: (node.ask(do="status") or {}).get("tenants"))
    assert gpu_client["id"].endswith("/main")
    assert gpu_client["quota_bytes"] == 256 * MIB
    node.until(lambda: node.used_mebibytes() == [100])
    clear(node.plane, [pod])
    node.until(lambda: not (node.ask(do="status") or {}).get("tenants"))


def test_shell_with_the_library_works_and_can_write_only_its_own_page(node: Node):
    program = f"""
        while read -r line; do case $line in *{LIBRARY}) loaded=yes;; esac; done < /proc/self/maps
        for file in /etc/ld.so.preload {LIBRARY} /run/gpusquad/decisions /run/gpusquad/tenants/0; do
            (: >> $file) 2> /dev/null && written="$written $file"
        done
        (: >> /run/gpusquad/tenant) && own=yes
        echo "{{\\"loaded\\": \\"$loaded\\", \\"written\\": \\"$written\\", \\"own\\": \\"$own\\"}}"
    """
    shell = ("/dash", "-c")
    for user in (0, 1234):
        pod = node.pod(program, "256Mi", shell=shell, securityContext={"runAsUser": user})
        assert node.printed(pod) == {"loaded": "yes", "written": "", "own": "yes"}
        clear(node.plane, [pod])


def test_process_without_the_library_is_reported_as_unmanaged(node: Node):
    """On simulated cards every process of a pod counts as using its card, and this one never loads the driver."""
    managed = node.pod(HOLD_MEMORY.format(500, 600), "1Gi")
    assert node.printed(managed)["fits"] == 0
    unmanaged = node.pod("import time; held = bytearray(64 << 20); print('{}', flush=True); time.sleep(1000)", "1Gi")
    wait_for(node.plane, [unmanaged], ["Running"])
    found = node.until(lambda: (node.ask(do="status") or {}).get("strangers"))
    assert [(process["name"], process["memory_bytes"] >= 64 * MIB) for process in found] == [("python3", True)]
    clear(node.plane, [managed, unmanaged])
    node.until(lambda: (node.ask(do="status") or {}).get("strangers") == [])


def test_only_a_shared_pod_gets_the_mps_pipe_folder(node: Node):
    program = "import json, os; print(json.dumps({n: v for n, v in os.environ.items() if n.startswith('CUDA_MPS')}))"
    annotations_by_class = {isolation: {"gpusquad.io/isolation": isolation} for isolation in ("shared", "isolated")}
    pods = {
        isolation: node.pod(program, "256Mi", OTHER, printed) for isolation, printed in annotations_by_class.items()
    }
    found = {isolation: node.printed(pod) for isolation, pod in pods.items()}
    assert found["shared"]["CUDA_MPS_PIPE_DIRECTORY"].startswith(str(node.sharing))
    assert list(found["isolated"]) == ["CUDA_MPS_PIPE_DIRECTORY"]
    assert not Path(found["isolated"]["CUDA_MPS_PIPE_DIRECTORY"]).exists()
    clear(node.plane, list(pods.values()))


def test_pod_that_ignores_sigterm_is_held_before_it_is_killed(node: Node):
    names = [node.pod(PRELUDE + IGNORE_SIGTERM, "256Mi") for _ in range(2)]
    assert [node.printed(name) for name in names] == [{"works": True}] * 2
    leaving, staying = (node.plane.admin.get(f"{PODS}/{name}") for name in names)
    node.until(lambda: node.gpu_client(leaving)["attained_us"] and node.gpu_client(staying)["attained_us"])
    node.plane.admin.delete(f"{PODS}/{names[0]}", gracePeriodSeconds="10")
    assert not node.gpu_client(leaving)["is_held"], "it was held before the end of its grace period"
    node.until(lambda: node.gpu_client(leaving)["is_held"] and not node.gpu_client(leaving)["in_flight"])
    assert node.gpu_client(leaving)["processes"] == 1, "it was killed before its work ended"
    assert not node.gpu_client(staying)["is_held"]
    node.until(lambda: not node.gpu_client(leaving))
    assert "with work on its card" not in node.agent.daemon.log.read_text()
    clear(node.plane, names[1:])


def test_pod_with_a_whole_card_gets_no_sharing_files(node: Node):
    program = "import json, os; print(json.dumps({'there': [p for p in PATHS if os.path.exists(p)]}))"
    paths = ["/etc/ld.so.preload", LIBRARY, "/run/gpusquad/tenant"]
    pod = node.pod(program.replace("PATHS", repr(paths)), card=OTHER)
    assert node.printed(pod) == {"there": []}
    clear(node.plane, [pod])


def test_unknown_isolation_is_refused(node: Node):
    pod = node.pod("", "256Mi", annotations={"gpusquad.io/isolation": "alone"})
    status = wait_for(node.plane, [pod])[pod]["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert "gpusquad.io/isolation" in status["message"]
    assert "isolated" in status["message"]
    clear(node.plane, [pod])
