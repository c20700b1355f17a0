"""What the kubelet is answered for a part of a card, with the real daemon behind it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpusquad.agent.kubernetes.card_clients import CardClients
from gpusquad.agent.kubernetes.card_policies import CardPolicies
from gpusquad.agent.kubernetes.pods import Container, Pod
from gpusquad.agent.kubernetes.sharing_settings import SharingSettings, quotas_of
from gpusquad.agent.simulated import SimulatedInventory
from gpusquad.gpu.api import QUOTA_PATH, QuotaFile
from gpusquad.gpu.attach.quota import SquadQuota
from gpusquad.gpu.daemon.wire import SOCKET, ask
from gpusquad.kube.names import SLO, WEIGHT
from tests.agent.kubernetes.fake_kubelet import FakeKubelet, Refused, pod
from tests.gpu.attach.fake_mps import fake_mps

WAIT_S = 60.0
GIB = 2**30
PART = Container("main", 1, limits={"nvidia.com/gpu": "1", "gpusquad.io/gpu-memory": "1Gi"}, run_as=(1234, 1234))
WHOLE = Container("main", 1, limits={"nvidia.com/gpu": "1"})
TENANT, DECISIONS = "/run/gpusquad/tenant", "/run/gpusquad/decisions"
READ_ONLY = {
    "/etc/ld.so.preload", "/usr/lib/gpusquad/libgpusquad.so", DECISIONS, "/run/gpusquad/tenants", QUOTA_PATH,
}  # fmt: skip


class Node:
    """Its folders, and one agent after another."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sharing = folder, SharingSettings("enforce", folder / "run")
        self.clients = self.new_agent()

    def new_agent(self) -> CardClients:
        cards = SimulatedInventory(2, self.folder).cards
        self.quotas = quotas_of(self.sharing, self.folder, cards, CardPolicies())
        return CardClients(self.quotas, passes_users=self.sharing.has_mps)

    def kubelet(self, virtual: int = 1) -> FakeKubelet:
        return FakeKubelet(2, 4, self.folder, clients=self.clients, virtual=virtual)

    def ask(self, what: str, card: str = "SIM-0") -> dict[str, Any] | None:
        try:
            [socket] = self.sharing.folder.glob(f"boot-*/cards/{card}/{SOCKET}")
            return ask(socket, {"do": what})
        except (OSError, ValueError):
            return None

    def standings(self) -> list[tuple[float, dict[str, float]]]:
        return [(each["weight"], each["slo"]) for each in (self.ask("status") or {"tenants": []})["tenants"]]

    def names(self) -> set[str]:
        return {tenant["id"] for tenant in (self.ask("status") or {"tenants": []})["tenants"]}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    made = Node(tmp_path)
    yield made
    for card in ("SIM-0", "SIM-1"):
        made.ask("stop", card)


def admit(kubelet: FakeKubelet, each: Pod) -> Pod:
    kubelet.pods.bind(each)
    kubelet.admit(each)
    return each


def until(is_so: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_part_comes_with_the_library_its_own_file_and_the_decisions(node: Node):
    kubelet = node.kubelet()
    first = admit(kubelet, pod("first", [PART], {"main": ["SIM-0"]}))
    second = admit(kubelet, pod("second", [PART], {"main": ["SIM-0"]}))
    mounts = kubelet.mounts[first.uid, "main"]
    assert {path for path, mount in mounts.items() if mount.read_only} == READ_ONLY
    assert {path for path, mount in mounts.items() if not mount.read_only} == {TENANT}
    assert all(Path(mount.outside).exists() for mount in mounts.values())
    assert Path(mounts["/etc/ld.so.preload"].outside).read_text() == "/usr/lib/gpusquad/libgpusquad.so\n"
    others = kubelet.mounts[second.uid, "main"]
    assert mounts[TENANT].outside != others[TENANT].outside
    assert mounts[DECISIONS] == others[DECISIONS]
    assert kubelet.envs[first.uid, "main"]["NVIDIA_VISIBLE_DEVICES"] == "SIM-0"
    assert node.names() == {"uid-of-first/main", "uid-of-second/main"}


def test_any_user_of_a_container_may_write_its_file_and_no_user_of_the_node(node: Node):
    """The mount is the wall: whoever a container's programs run as, they are counted."""
    kubelet = node.kubelet()
    for container in (PART, Container("main", 1, limits=PART.limits)):
        each = admit(kubelet, pod(f"as-{container.run_as}", [container], {"main": ["SIM-0"]}))
        file = Path(kubelet.mounts[each.uid, "main"][TENANT].outside).stat()
        assert (file.st_mode & 0o777, file.st_uid) == (0o666, os.geteuid())
    assert node.sharing.folder.stat().st_mode & 0o777 == 0o700


def test_a_whole_card_comes_with_its_limits_written_down_and_no_more(node: Node):
    kubelet = node.kubelet()
    each = admit(kubelet, pod("p", [WHOLE], {"main": ["SIM-1"]}))
    assert set(kubelet.mounts[each.uid, "main"]) == {QUOTA_PATH}
    assert kubelet.envs[each.uid, "main"].keys() == {"NVIDIA_VISIBLE_DEVICES", "GPUSQUAD_CARDS"}
    assert node.ask("hello", "SIM-1") is None, "nothing is divided, so nobody has to"


def test_a_virtual_card_is_a_part_of_the_card_that_the_runtime_knows(node: Node):
    kubelet = node.kubelet(virtual=4)
    each = admit(kubelet, pod("p", [WHOLE], {"main": ["SIM-0.3of4"]}))
    envs = kubelet.envs[each.uid, "main"]
    assert (envs["NVIDIA_VISIBLE_DEVICES"], envs["GPUSQUAD_CARDS"]) == ("SIM-0", "SIM-0.3of4")
    [tenant] = (node.ask("status") or {"tenants": []})["tenants"]
    assert (tenant["within"], tenant["sm_milli"], tenant["quota_bytes"]) == (0, 250, 20 * GIB)  # no MPS: it takes turns


def test_with_mps_a_virtual_card_has_sms_of_its_own(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake_mps(tmp_path / "fake-mps", monkeypatch)
    node.sharing = replace(node.sharing, has_mps=True)
    node.clients = node.new_agent()
    admit(node.kubelet(virtual=4), pod("p", [WHOLE], {"main": ["SIM-0.3of4"]}))
    [tenant] = (node.ask("status") or {"tenants": []})["tenants"]
    assert (tenant["within"], tenant["sm_milli"]) == (0b111 << 6, 0)  # three of twelve groups


def test_goals_and_weight_reach_the_card_and_so_do_changes(node: Node):
    kubelet = node.kubelet()
    said = {SLO: "p99=20ms,throughput=5", WEIGHT: "2.5"}
    each = admit(kubelet, replace(pod("p", [PART], {"main": ["SIM-0"]}), annotations=said))
    assert node.standings() == [(2.5, {"latency_us": 20_000, "throughput_per_s": 5.0})]
    node.clients.follow([replace(each, annotations={SLO: "p99=30ms"})])
    assert node.standings() == [(1.0, {"latency_us": 30_000})]


def test_memory_that_a_card_does_not_have_is_refused(node: Node):
    kubelet = node.kubelet()
    much = Container("main", 1, limits={**PART.limits, "gpusquad.io/gpu-memory": "8Ti"})
    with pytest.raises(Refused):
        admit(kubelet, pod("p", [much], {"main": ["SIM-0"]}))


def test_the_next_agent_answers_the_same_and_starts_a_daemon_again_that_died_with_the_last(node: Node):
    kubelet = node.kubelet()
    each = admit(kubelet, pod("p", [PART], {"main": ["SIM-0"]}))
    hello = node.ask("hello")
    assert hello is not None
    os.kill(hello["pid"], signal.SIGKILL)
    until(lambda: node.ask("hello") is None)
    node.clients = node.new_agent()
    node.clients.follow([each])
    assert node.names() == {"uid-of-p/main"}
    again = node.kubelet()
    admit(again, each)
    assert again.mounts[each.uid, "main"] == kubelet.mounts[each.uid, "main"]
    node.clients.follow([])
    node.clients.follow([])
    assert node.names() == set()


def test_the_settings_reach_the_card(node: Node):
    node.sharing = replace(node.sharing, fail_open_ms=5000, context_bytes=2**29)
    node.clients = node.new_agent()
    admit(node.kubelet(), pod("p", [PART], {"main": ["SIM-0"]}))
    hello = node.ask("hello")
    assert hello is not None
    assert (hello["fail_open_ms"], hello["context_bytes"]) == (5000, 2**29)
    small = Container("main", 1, limits={**PART.limits, "gpusquad.io/gpu-memory": "512Mi"})
    with pytest.raises(Refused, match="context_bytes"):
        admit(node.kubelet(), pod("small", [small], {"main": ["SIM-0"]}))


def test_trusting_is_another_matter(tmp_path: Path):
    cards = SimulatedInventory(1, tmp_path).cards
    [only] = quotas_of(SharingSettings("write-down", tmp_path / "run"), tmp_path, cards, CardPolicies())
    assert isinstance(only, QuotaFile)
    assert not (tmp_path / "run").exists()


def test_the_rule_for_strangers_reaches_the_cards(node: Node):
    node.sharing = replace(node.sharing, strangers="refuse")
    node.clients = node.new_agent()
    admit(node.kubelet(), pod("a", [PART], {"main": ["SIM-0"]}))
    assert (node.ask("status") or {})["rule"] == "refuse"


def test_a_daemon_that_hangs_keeps_the_rule_of_its_card_in_reports(node: Node):
    policies = CardPolicies()
    quotas_of(node.sharing, node.folder, SimulatedInventory(2, node.folder).cards, policies)
    admit(node.kubelet(), pod("a", [PART], {"main": ["SIM-0"]}))
    pid = (node.ask("hello") or {})["pid"]
    said = []
    for order in (signal.SIGCONT, signal.SIGSTOP):
        os.kill(pid, order)
        message: dict[str, Any] = {"cards": [{"id": "SIM-0"}]}
        policies.add_to(message)
        said.append(message["cards"][0].get("divided", {}))
    os.kill(pid, signal.SIGCONT)
    assert said[0]["rule"] == "report"
    assert said[1] == said[0]


def test_the_services_word_decides_how_a_card_is_divided(node: Node):
    policies = CardPolicies("equal")
    [squads] = [
        quota
        for quota in quotas_of(node.sharing, node.folder, SimulatedInventory(2, node.folder).cards, policies)
        if isinstance(quota, SquadQuota)
    ]
    assert squads.policies() == {"SIM-0": "equal", "SIM-1": "equal"}
    policies.take({"divide": {"SIM-1": "priority"}})
    assert squads.policies() == {"SIM-0": "equal", "SIM-1": "priority"}
