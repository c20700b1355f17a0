"""Tests of allocations with a share of a card, with the real card daemon."""

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
SHARED = Container("main", 1, limits={"nvidia.com/gpu": "1", "gpusquad.io/gpu-memory": "1Gi"}, run_as=(1234, 1234))
WHOLE_CARD = Container("main", 1, limits={"nvidia.com/gpu": "1"})
CLIENT_FILE, GRANTS = "/run/gpusquad/tenant", "/run/gpusquad/decisions"
READ_ONLY = {
    "/etc/ld.so.preload", "/usr/lib/gpusquad/libgpusquad.so", GRANTS, "/run/gpusquad/tenants", QUOTA_PATH,
}  # fmt: skip


class Node:
    """A node's folders and its current agent."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sharing = folder, SharingSettings("enforce", folder / "run")
        self.clients = self.new_agent()

    def new_agent(self) -> CardClients:
        cards = SimulatedInventory(2, self.folder).cards
        self.quotas = quotas_of(self.sharing, self.folder, cards, CardPolicies())
        return CardClients(self.quotas, passes_users=self.sharing.has_mps)

    def kubelet(self, virtual: int = 1) -> FakeKubelet:
        return FakeKubelet(2, 4, self.folder, clients=self.clients, virtual=virtual)

    def ask(self, action: str, card: str = "SIM-0") -> dict[str, Any] | None:
        try:
            [socket] = self.sharing.folder.glob(f"boot-*/cards/{card}/{SOCKET}")
            return ask(socket, {"do": action})
        except (OSError, ValueError):
            return None

    def weights_and_slos(self) -> list[tuple[float, dict[str, float]]]:
        return [(client["weight"], client["slo"]) for client in (self.ask("status") or {"tenants": []})["tenants"]]

    def client_ids(self) -> set[str]:
        return {tenant["id"] for tenant in (self.ask("status") or {"tenants": []})["tenants"]}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    created = Node(tmp_path)
    yield created
    for card in ("SIM-0", "SIM-1"):
        created.ask("stop", card)


def admit(kubelet: FakeKubelet, admitted: Pod) -> Pod:
    kubelet.pods.bind(admitted)
    kubelet.admit(admitted)
    return admitted


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_share_mounts_the_library_its_own_file_and_the_grants(node: Node):
    kubelet = node.kubelet()
    first = admit(kubelet, pod("first", [SHARED], {"main": ["SIM-0"]}))
    second = admit(kubelet, pod("second", [SHARED], {"main": ["SIM-0"]}))
    mounts = kubelet.mounts[first.uid, "main"]
    assert {path for path, mount in mounts.items() if mount.read_only} == READ_ONLY
    assert {path for path, mount in mounts.items() if not mount.read_only} == {CLIENT_FILE}
    assert all(Path(mount.outside).exists() for mount in mounts.values())
    assert Path(mounts["/etc/ld.so.preload"].outside).read_text() == "/usr/lib/gpusquad/libgpusquad.so\n"
    second_mounts = kubelet.mounts[second.uid, "main"]
    assert mounts[CLIENT_FILE].outside != second_mounts[CLIENT_FILE].outside
    assert mounts[GRANTS] == second_mounts[GRANTS]
    assert kubelet.envs[first.uid, "main"]["NVIDIA_VISIBLE_DEVICES"] == "SIM-0"
    assert node.client_ids() == {"uid-of-first/main", "uid-of-second/main"}


def test_client_file_is_writable_in_the_container_but_not_on_the_node(node: Node):
    """Only the mount protects the file, so that programs of any user in the container are counted."""
    kubelet = node.kubelet()
    for container in (SHARED, Container("main", 1, limits=SHARED.limits)):
        admitted = admit(kubelet, pod(f"as-{container.run_as}", [container], {"main": ["SIM-0"]}))
        file = Path(kubelet.mounts[admitted.uid, "main"][CLIENT_FILE].outside).stat()
        assert (file.st_mode & 0o777, file.st_uid) == (0o666, os.geteuid())
    assert node.sharing.folder.stat().st_mode & 0o777 == 0o700


def test_whole_card_mounts_only_the_quota_file(node: Node):
    kubelet = node.kubelet()
    admitted = admit(kubelet, pod("p", [WHOLE_CARD], {"main": ["SIM-1"]}))
    assert set(kubelet.mounts[admitted.uid, "main"]) == {QUOTA_PATH}
    assert kubelet.envs[admitted.uid, "main"].keys() == {"NVIDIA_VISIBLE_DEVICES", "GPUSQUAD_CARDS"}
    assert node.ask("hello", "SIM-1") is None, "a whole card needs no daemon"


def test_virtual_card_is_a_share_of_the_physical_card(node: Node):
    kubelet = node.kubelet(virtual=4)
    admitted = admit(kubelet, pod("p", [WHOLE_CARD], {"main": ["SIM-0.3of4"]}))
    envs = kubelet.envs[admitted.uid, "main"]
    assert (envs["NVIDIA_VISIBLE_DEVICES"], envs["GPUSQUAD_CARDS"]) == ("SIM-0", "SIM-0.3of4")
    [tenant] = (node.ask("status") or {"tenants": []})["tenants"]
    assert (tenant["within"], tenant["sm_milli"], tenant["quota_bytes"]) == (0, 250, 20 * GIB)  # no MPS: time-slicing


def test_virtual_card_has_its_own_sms_with_mps(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake_mps(tmp_path / "fake-mps", monkeypatch)
    node.sharing = replace(node.sharing, has_mps=True)
    node.clients = node.new_agent()
    admit(node.kubelet(virtual=4), pod("p", [WHOLE_CARD], {"main": ["SIM-0.3of4"]}))
    [tenant] = (node.ask("status") or {"tenants": []})["tenants"]
    assert (tenant["within"], tenant["sm_milli"]) == (0b111 << 6, 0)  # three of twelve SM groups


def test_slo_and_weight_and_their_changes_reach_the_daemon(node: Node):
    kubelet = node.kubelet()
    annotations = {SLO: "p99=20ms,throughput=5", WEIGHT: "2.5"}
    admitted = admit(kubelet, replace(pod("p", [SHARED], {"main": ["SIM-0"]}), annotations=annotations))
    assert node.weights_and_slos() == [(2.5, {"latency_us": 20_000, "throughput_per_s": 5.0})]
    node.clients.follow([replace(admitted, annotations={SLO: "p99=30ms"})])
    assert node.weights_and_slos() == [(1.0, {"latency_us": 30_000})]


def test_memory_larger_than_the_card_is_refused(node: Node):
    kubelet = node.kubelet()
    too_large = Container("main", 1, limits={**SHARED.limits, "gpusquad.io/gpu-memory": "8Ti"})
    with pytest.raises(Refused):
        admit(kubelet, pod("p", [too_large], {"main": ["SIM-0"]}))


def test_next_agent_gives_the_same_mounts_and_restarts_a_dead_daemon(node: Node):
    kubelet = node.kubelet()
    admitted = admit(kubelet, pod("p", [SHARED], {"main": ["SIM-0"]}))
    hello = node.ask("hello")
    assert hello is not None
    os.kill(hello["pid"], signal.SIGKILL)
    until(lambda: node.ask("hello") is None)
    node.clients = node.new_agent()
    node.clients.follow([admitted])
    assert node.client_ids() == {"uid-of-p/main"}
    second_kubelet = node.kubelet()
    admit(second_kubelet, admitted)
    assert second_kubelet.mounts[admitted.uid, "main"] == kubelet.mounts[admitted.uid, "main"]
    node.clients.follow([])
    node.clients.follow([])
    assert node.client_ids() == set()


def test_sharing_settings_reach_the_daemon(node: Node):
    node.sharing = replace(node.sharing, fail_open_ms=5000, context_bytes=2**29)
    node.clients = node.new_agent()
    admit(node.kubelet(), pod("p", [SHARED], {"main": ["SIM-0"]}))
    hello = node.ask("hello")
    assert hello is not None
    assert (hello["fail_open_ms"], hello["context_bytes"]) == (5000, 2**29)
    small = Container("main", 1, limits={**SHARED.limits, "gpusquad.io/gpu-memory": "512Mi"})
    with pytest.raises(Refused, match="context_bytes"):
        admit(node.kubelet(), pod("small", [small], {"main": ["SIM-0"]}))


def test_quota_is_only_recorded_when_sharing_is_not_enforced(tmp_path: Path):
    cards = SimulatedInventory(1, tmp_path).cards
    [quota] = quotas_of(SharingSettings("advisory", tmp_path / "run"), tmp_path, cards, CardPolicies())
    assert isinstance(quota, QuotaFile)
    assert not (tmp_path / "run").exists()


def test_rule_for_unmanaged_processes_reaches_the_daemon(node: Node):
    node.sharing = replace(node.sharing, strangers="refuse")
    node.clients = node.new_agent()
    admit(node.kubelet(), pod("a", [SHARED], {"main": ["SIM-0"]}))
    assert (node.ask("status") or {})["rule"] == "refuse"


def test_rule_stays_in_reports_when_the_daemon_hangs(node: Node):
    policies = CardPolicies()
    quotas_of(node.sharing, node.folder, SimulatedInventory(2, node.folder).cards, policies)
    admit(node.kubelet(), pod("a", [SHARED], {"main": ["SIM-0"]}))
    pid = (node.ask("hello") or {})["pid"]
    reports = []
    for signal_number in (signal.SIGCONT, signal.SIGSTOP):
        os.kill(pid, signal_number)
        message: dict[str, Any] = {"cards": [{"id": "SIM-0"}]}
        policies.add_to(message)
        reports.append(message["cards"][0].get("divided", {}))
    os.kill(pid, signal.SIGCONT)
    assert reports[0]["rule"] == "report"
    assert reports[1] == reports[0]


def test_policy_from_the_service_replaces_the_default(node: Node):
    policies = CardPolicies("equal")
    [squad_quota] = [
        quota
        for quota in quotas_of(node.sharing, node.folder, SimulatedInventory(2, node.folder).cards, policies)
        if isinstance(quota, SquadQuota)
    ]
    assert squad_quota.policies() == {"SIM-0": "equal", "SIM-1": "equal"}
    policies.take({"divide": {"SIM-1": "priority"}})
    assert squad_quota.policies() == {"SIM-0": "equal", "SIM-1": "priority"}
