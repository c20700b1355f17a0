"""Tests of finding unmanaged processes on a node's shared cards."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from gpusquad.agent.inventory import CardProcess, CardReading
from gpusquad.agent.kubernetes.agent import AgentSettings, NodeAgent
from gpusquad.agent.kubernetes.node_snapshot import NodeSnapshot
from gpusquad.agent.kubernetes.pod_resources import ListedPod
from gpusquad.agent.kubernetes.pods import Container, Pod
from gpusquad.agent.kubernetes.reporting import ReportBuilder
from gpusquad.agent.kubernetes.unmanaged import processes_by_card, unmanaged_watch
from gpusquad.agent.simulated import SimulatedInventory
from gpusquad.gpu.api import NoSharing
from gpusquad.gpu.attach import unmanaged
from gpusquad.gpu.attach.unmanaged import UnmanagedWatch
from gpusquad.gpu.daemon.unmanaged import UnmanagedProcess
from gpusquad.kube.errors import ApiUnreachable
from gpusquad.kube.names import ATTEMPT, JOB
from tests.agent.kubernetes.fake_kubelet import pod

GIB = 2**30


class FakeSharing(NoSharing):
    def __init__(self) -> None:
        self.reports: list[tuple[str, list[int], set[int]]] = []
        self.pids_by_client: dict[str, list[int]] = {}

    def client_pids(self, card_id: str) -> dict[str, list[int]]:
        return self.pids_by_client

    def report_processes(self, card_id: str, listed: Sequence[UnmanagedProcess], ours: Sequence[int]) -> Sequence[int]:
        self.reports.append((card_id, [process.pid for process in listed], set(ours)))
        return [process.pid for process in listed if process.pid not in ours]


def sharing_pod(name: str, card: str) -> Pod:
    return pod(name, [Container("main", 1)], {"main": (card,)}, annotations={JOB: "J", ATTEMPT: "1"}, is_started=True)


def snapshot(owners: dict[int, str], *pods: Pod, **pids_by_card: Sequence[int] | None) -> NodeSnapshot:
    """``pids_by_card``: pids that the driver lists for each card."""
    readings = [
        CardReading(card.replace("_", "."), throttle=(),
                    processes=None if pids is None else tuple(CardProcess(pid, GIB, None, "python") for pid in pids))
        for card, pids in pids_by_card.items()
    ]  # fmt: skip
    listed = [
        ListedPod("default", listed_pod.name, {"main": tuple(f"{card}::0" for card in listed_pod.pinned_cards)})
        for listed_pod in pods
    ]
    return NodeSnapshot(0, readings, [], owners, pods, listed)


@pytest.fixture
def sharing() -> FakeSharing:
    return FakeSharing()


@pytest.fixture
def watch(sharing: FakeSharing) -> Iterator[UnmanagedWatch[NodeSnapshot]]:
    created = unmanaged_watch(sharing)
    yield created
    created.close()


def test_processes_are_listed_by_card_with_the_uid_of_their_pod():
    first, second = sharing_pod("a", "A.1of2"), sharing_pod("b", "A.2of2")
    owners = {4: first.key, 5: second.key}
    found = processes_by_card(snapshot(owners, first, second, A_1of2=[4], A_2of2=[5, 6], B=None))
    assert {card: {pid: process.owner for pid, process in processes.items()} for card, processes in found.items()} == {
        "A": {4: first.uid, 5: second.uid, 6: None},
    }  # fmt: skip


def test_unknown_process_counts_as_managed_while_a_pod_has_no_known_process(sharing, watch, caplog):
    """An unmanaged process is listed on every virtual card of its card."""
    visible, hidden = sharing_pod("a", "A.1of2"), sharing_pod("b", "A.2of2")
    node = snapshot({4: visible.key}, visible, hidden, A_1of2=[4, 6], A_2of2=[6])
    for _ in range(2):
        watch.see(node)
    assert sharing.reports[-1] == ("A", [4, 6], {4, 6})
    cards = ReportBuilder(None).message(node)["cards"]
    assert [[process["pid"] for process in card["processes"]] for card in cards] == [[4], []]


def test_unmanaged_process_stays_unmanaged_when_a_pod_is_added(sharing, watch, caplog):
    first, second = sharing_pod("a", "A"), sharing_pod("b", "A")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            watch.see(snapshot({4: first.key}, first, A=[4, 6]))
        # The process of the second pod is not known yet.
        watch.see(snapshot({4: first.key}, first, second, A=[4, 6, 7]))
        watch.see(snapshot({4: first.key, 7: second.key}, first, second, A=[4, 6, 7]))
    assert [ours for _, _, ours in sharing.reports] == [{4}, {4}, {4, 7}, {4, 7}]
    assert len(caplog.records) == 1


class UnreachableApi:
    def __getattr__(self, name: str) -> Any:
        raise ApiUnreachable("away")


def test_no_process_is_unmanaged_before_all_pods_are_listed(tmp_path, sharing, watch, monkeypatch, caplog):
    agent = NodeAgent(AgentSettings("n", tmp_path), SimulatedInventory(1, tmp_path), cast(Any, UnreachableApi()))
    reading = CardReading("SIM-0", throttle=(), processes=(CardProcess(4, GIB, None, "python"),))
    monkeypatch.setattr(agent.cards, "look", lambda owned: [reading])
    monkeypatch.setattr(watch, "hear", watch.see)
    monkeypatch.setattr(agent, "_unmanaged", watch)
    for _ in range(2):
        agent._read_node()
    assert sharing.reports == [("SIM-0", [4], {4})] * 2
    monkeypatch.setattr(agent._pods, "has_listed", True)
    monkeypatch.setattr(agent._reconciler, "has_listed", True)
    agent._read_node()
    assert sharing.reports[-1] == ("SIM-0", [4], set())


def test_process_without_a_pod_is_logged_once_and_reported_to_the_daemon(sharing, watch, caplog):
    client = sharing_pod("a", "A")
    sharing.pids_by_client = {f"{client.uid}/main": [4]}
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            watch.see(snapshot({4: client.key}, client, A=[4, 6]))
    assert sharing.reports[-1] == ("A", [4, 6], {4})
    assert [record.message for record in caplog.records] == ["unmanaged process on a shared card: it belongs to no pod"]


def test_pod_process_without_the_shim_is_marked_in_reports(sharing, watch, monkeypatch, caplog):
    monkeypatch.setattr(unmanaged, "GRACE_S", 0.0)
    client = sharing_pod("a", "A")
    sharing.pids_by_client = {f"{client.uid}/main": [4]}
    node = snapshot({4: client.key, 5: client.key}, client, A=[4, 5])
    with caplog.at_level(logging.WARNING):
        watch.see(node)
    message = ReportBuilder(None, lambda: watch.unheld).message(node)
    assert [(process["pid"], process["unheld"]) for process in message["cards"][0]["processes"]] == [
        (4, False),
        (5, True),
    ]
    assert sharing.reports[-1] == ("A", [4, 5], {4})
    assert "belongs to a pod with a share, but runs without the shim" in caplog.text


def test_agent_marks_unmanaged_processes_in_its_reports(tmp_path, watch, monkeypatch):
    settings = AgentSettings("n", tmp_path, server="https://service.invalid", logs=None)
    agent = NodeAgent(settings, SimulatedInventory(1, tmp_path), cast(Any, UnreachableApi()))
    monkeypatch.setattr(agent, "_unmanaged", watch)
    monkeypatch.setattr(watch, "unheld", frozenset({("A", 5)}))
    client = sharing_pod("a", "A")
    assert agent._reporter is not None
    message = agent._reporter._samples.message(snapshot({5: client.key}, client, A=[5]))
    assert [process["unheld"] for process in message["cards"][0]["processes"]] == [True]
