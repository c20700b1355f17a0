"""Parts of a card on a real kubelet: what the agent mounts makes every program of a container keep to its quota.

The card is a stand-in driver in the containers. The library, the daemon of the card and the agent are the real ones.
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
HOLDS = PRELUDE + "tell(total=cuda.memory()[1] >> 20, fits=take({0}), over=take({1}))\ntime.sleep(1000)"
DEAF = """
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
    """The real node, its agent, and what the daemon of a card says."""

    def __init__(self, plane: ControlPlane, agent: Agent, driver: Path) -> None:
        self.plane, self.agent, self._driver = plane, agent, driver
        self.sharing = plane.folder / "run"
        (plane.folder / "card").mkdir(exist_ok=True)

    def pod(self, program: str, memory: str = "", card: str = CARD, said: Mapping[str, str] | None = None,
            shell: Sequence[str] = (), **spec: Any) -> str:  # fmt: skip
        """One that is bound to the card; ``memory`` of it is its part."""
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
        self.plane.admin.patch(f"{PODS}/{name}", {"metadata": {"annotations": dict(said or {})}})
        place_at_once(self.plane, {name: {"main": [card]}})
        return name

    def told(self, pod: str) -> dict[str, Any]:
        """The line that its program printed."""
        wait_for(self.plane, [pod], ["Running", *ENDED])
        return self.until(lambda: self._line(pod))

    def _line(self, pod: str) -> dict[str, Any] | None:
        status = self.plane.admin.get(f"{PODS}/{pod}")["status"]
        refused = status["phase"] == "Failed" and not status.get("containerStatuses")
        log = [] if refused else self.log(pod)
        told = next((json.loads(line) for line in log if line.startswith("{")), None)
        assert told or status["phase"] not in ENDED, f"{log}\n{status}\n{self.agent.daemon.last_words()}"
        return told

    def log(self, pod: str) -> list[str]:
        return self.plane.admin.text(f"{PODS}/{pod}/log").splitlines()

    def run_in(self, pod: str, program: str) -> dict[str, Any]:
        """Another process of the container, with an environment that it was given by nobody."""
        words = [f"{name}={value}" for name, value in ENV.items()]
        said = self.plane.kubectl("exec", pod, "--", "/bin/env", "-i", *words, "/bin/python3", "-c", PRELUDE + program)
        return json.loads(said.splitlines()[-1])

    def ask(self, card: str = CARD, **question: str) -> dict[str, Any] | None:
        """None: no daemon answers."""
        try:
            [socket] = self.sharing.glob(f"boot-*/cards/{card}/{SOCKET}")
            return ask(socket, question)
        except (ValueError, OSError):
            return None

    def used_mebibytes(self, card: str = CARD) -> list[int]:
        found = self.ask(card, do="status") or {"tenants": []}
        return sorted(tenant["used_bytes"] // MIB for tenant in found["tenants"])

    def tenant(self, pod: Object) -> dict[str, Any]:
        """What the daemon says of it. Empty: it is gone."""
        tenants = (self.ask(do="status") or {"tenants": []})["tenants"]
        return next((one for one in tenants if one["id"] == f"{pod['metadata']['uid']}/main"), {})

    def until(self, look: Callable[[], Any]) -> Any:
        deadline_s = time.monotonic() + WAIT_S
        while not (found := look()):
            assert time.monotonic() < deadline_s, self.agent.daemon.last_words()
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
        more = ["--sharing=enforce", f"--sharing-folder={plane.folder / 'run'}", "--mps"]
        with agent_on(plane, 2, slots=4, more=more, path=f"{programs}:/usr/bin:/bin") as agent:
            made = Node(plane, agent, build(tmp_path_factory.mktemp("driver")))
            yield made
        for card in (CARD, OTHER):  # in a pod they would have ended with the agent
            made.ask(card, do="stop")


def test_two_pods_on_one_card_each_have_their_own_quota(node: Node):
    small, large = node.pod(HOLDS.format(100, 200), "256Mi"), node.pod(HOLDS.format(200, 400), "512Mi")
    assert node.told(small) == {"total": 256, "fits": 0, "over": OUT_OF_MEMORY}
    assert node.told(large) == {"total": 512, "fits": 0, "over": OUT_OF_MEMORY}
    assert node.used_mebibytes() == [100, 200]
    # Whatever is started beside it counts as well, and a variable cannot be shed.
    assert node.run_in(small, "tell(more=take(100), over=take(100))") == {"more": 0, "over": OUT_OF_MEMORY}
    node.until(lambda: node.used_mebibytes() == [100, 200])
    clear(node.plane, [small, large])
    node.until(lambda: not (node.ask(do="status") or {}).get("tenants"))
    assert not node.agent.lines("refused")


def test_a_new_agent_picks_up_tenants_that_ran_on_without_a_daemon(node: Node):
    """As when the agent's pod is replaced: all of its processes end with it."""
    pod = node.pod(HOLDS.format(100, 200), "256Mi")
    node.told(pod)
    node.agent.daemon.stop()
    hello = node.ask(do="hello")
    assert hello is not None
    os.kill(hello["pid"], signal.SIGKILL)
    node.until(lambda: node.ask(do="hello") is None)
    assert node.run_in(pod, "tell(more=take(100), over=take(100))") == {"more": 0, "over": OUT_OF_MEMORY}
    node.agent.start()
    [tenant] = node.until(lambda: (node.ask(do="status") or {}).get("tenants"))
    assert tenant["id"].endswith("/main")
    assert tenant["quota_bytes"] == 256 * MIB
    node.until(lambda: node.used_mebibytes() == [100])
    clear(node.plane, [pod])
    node.until(lambda: not (node.ask(do="status") or {}).get("tenants"))


def test_a_shell_that_loads_the_library_works_and_keeps_its_hands_off_others(node: Node):
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
        assert node.told(pod) == {"loaded": "yes", "written": "", "own": "yes"}
        clear(node.plane, [pod])


def test_a_program_without_the_library_is_told_of(node: Node):
    """On simulated cards every process of a pod counts as on its card, and this one never comes near the driver."""
    holds = node.pod(HOLDS.format(500, 600), "1Gi")
    assert node.told(holds)["fits"] == 0
    sheds = node.pod("import time; held = bytearray(64 << 20); print('{}', flush=True); time.sleep(1000)", "1Gi")
    wait_for(node.plane, [sheds], ["Running"])
    found = node.until(lambda: (node.ask(do="status") or {}).get("strangers"))
    assert [(one["name"], one["memory_bytes"] >= 64 * MIB) for one in found] == [("python3", True)]
    clear(node.plane, [holds, sheds])
    node.until(lambda: (node.ask(do="status") or {}).get("strangers") == [])


def test_only_a_shared_pod_is_told_of_mps(node: Node):
    program = "import json, os; print(json.dumps({n: v for n, v in os.environ.items() if n.startswith('CUDA_MPS')}))"
    said = {word: {"gpusquad.io/isolation": word} for word in ("shared", "isolated")}
    pods = {word: node.pod(program, "256Mi", OTHER, told) for word, told in said.items()}
    found = {word: node.told(pod) for word, pod in pods.items()}
    assert found["shared"]["CUDA_MPS_PIPE_DIRECTORY"].startswith(str(node.sharing))
    assert list(found["isolated"]) == ["CUDA_MPS_PIPE_DIRECTORY"]
    assert not Path(found["isolated"]["CUDA_MPS_PIPE_DIRECTORY"]).exists()
    clear(node.plane, list(pods.values()))


def test_a_pod_that_does_not_end_is_off_the_card_before_it_is_killed(node: Node):
    names = [node.pod(PRELUDE + DEAF, "256Mi") for _ in range(2)]
    assert [node.told(name) for name in names] == [{"works": True}] * 2
    leaves, stays = (node.plane.admin.get(f"{PODS}/{name}") for name in names)
    node.until(lambda: node.tenant(leaves)["attained_us"] and node.tenant(stays)["attained_us"])
    node.plane.admin.delete(f"{PODS}/{names[0]}", gracePeriodSeconds="10")
    assert not node.tenant(leaves)["is_held"], "it has time to save its work"
    node.until(lambda: node.tenant(leaves)["is_held"] and not node.tenant(leaves)["in_flight"])
    assert node.tenant(leaves)["processes"] == 1, "it was killed first"
    assert not node.tenant(stays)["is_held"]
    node.until(lambda: not node.tenant(leaves))
    assert "with work on its card" not in node.agent.daemon.log.read_text()
    clear(node.plane, names[1:])


def test_a_whole_card_comes_without_any_of_it(node: Node):
    program = "import json, os; print(json.dumps({'there': [p for p in PATHS if os.path.exists(p)]}))"
    paths = ["/etc/ld.so.preload", LIBRARY, "/run/gpusquad/tenant"]
    pod = node.pod(program.replace("PATHS", repr(paths)), card=OTHER)
    assert node.told(pod) == {"there": []}
    clear(node.plane, [pod])


def test_a_word_for_isolation_that_is_none_is_refused(node: Node):
    pod = node.pod("", "256Mi", said={"gpusquad.io/isolation": "alone"})
    status = wait_for(node.plane, [pod])[pod]["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert "gpusquad.io/isolation" in status["message"]
    assert "isolated" in status["message"]
    clear(node.plane, [pod])
