"""Who on a node's shared cards is held by nothing."""

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
from gpusquad.agent.kubernetes.unmanaged import on_cards, unmanaged_watch
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
        self.asked: list[tuple[str, list[int], set[int]]] = []
        self.by_tenant: dict[str, list[int]] = {}

    def client_pids(self, card_id: str) -> dict[str, list[int]]:
        return self.by_tenant

    def report_processes(self, card_id: str, listed: Sequence[UnmanagedProcess], ours: Sequence[int]) -> Sequence[int]:
        self.asked.append((card_id, [one.pid for one in listed], set(ours)))
        return [one.pid for one in listed if one.pid not in ours]


def part_of(name: str, card: str) -> Pod:
    return pod(name, [Container("main", 1)], {"main": (card,)}, annotations={JOB: "J", ATTEMPT: "1"}, is_started=True)


def look(owners: dict[int, str], *pods: Pod, **on: Sequence[int] | None) -> NodeSnapshot:
    """``on``: by card, the pids that the driver lists."""
    readings = [
        CardReading(card.replace("_", "."), throttle=(),
                    processes=None if pids is None else tuple(CardProcess(pid, GIB, None, "python") for pid in pids))
        for card, pids in on.items()
    ]  # fmt: skip
    listed = [
        ListedPod("default", one.name, {"main": tuple(f"{card}::0" for card in one.pinned_cards)}) for one in pods
    ]
    return NodeSnapshot(0, readings, [], owners, pods, listed)


@pytest.fixture
def squads() -> FakeSharing:
    return FakeSharing()


@pytest.fixture
def watch(squads: FakeSharing) -> Iterator[UnmanagedWatch[NodeSnapshot]]:
    made = unmanaged_watch(squads)
    yield made
    made.close()


def test_processes_are_their_pods_by_the_name_under_which_parts_are_given():
    first, second = part_of("a", "A.1of2"), part_of("b", "A.2of2")
    owners = {4: first.key, 5: second.key}
    found = on_cards(look(owners, first, second, A_1of2=[4], A_2of2=[5, 6], B=None))
    assert {card: {pid: one.owner for pid, one in on.items()} for card, on in found.items()} == {
        "A": {4: first.uid, 5: second.uid, 6: None},
    }  # fmt: skip


def test_where_a_pod_cannot_be_seen_into_a_process_of_nobody_may_be_its(squads, watch, caplog):
    """On virtual cards one of nobody is shown on each part."""
    seen, hidden = part_of("a", "A.1of2"), part_of("b", "A.2of2")
    what = look({4: seen.key}, seen, hidden, A_1of2=[4, 6], A_2of2=[6])
    for _ in range(2):
        watch.see(what)
    assert squads.asked[-1] == ("A", [4, 6], {4, 6})
    told = ReportBuilder(None).message(what)["cards"]
    assert [[one["pid"] for one in card["processes"]] for card in told] == [[4], []]


def test_one_that_was_a_stranger_stays_one_while_a_pod_comes(squads, watch, caplog):
    first, second = part_of("a", "A"), part_of("b", "A")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            watch.see(look({4: first.key}, first, A=[4, 6]))
        watch.see(look({4: first.key}, first, second, A=[4, 6, 7]))  # nothing is seen of the second yet
        watch.see(look({4: first.key, 7: second.key}, first, second, A=[4, 6, 7]))
    assert [ours for _, _, ours in squads.asked] == [{4}, {4}, {4, 7}, {4, 7}]
    assert len(caplog.records) == 1


class NobodyAnswers:
    def __getattr__(self, name: str) -> Any:
        raise ApiUnreachable("away")


def test_before_it_is_known_which_pods_there_are_nobody_is_a_stranger(tmp_path, squads, watch, monkeypatch, caplog):
    agent = NodeAgent(AgentSettings("n", tmp_path), SimulatedInventory(1, tmp_path), cast(Any, NobodyAnswers()))
    reading = CardReading("SIM-0", throttle=(), processes=(CardProcess(4, GIB, None, "python"),))
    monkeypatch.setattr(agent.cards, "look", lambda owned: [reading])
    monkeypatch.setattr(watch, "hear", watch.see)
    monkeypatch.setattr(agent, "_unmanaged", watch)
    for _ in range(2):
        agent._read_node()
    assert squads.asked == [("SIM-0", [4], {4})] * 2
    monkeypatch.setattr(agent._pods, "has_heard", True)
    monkeypatch.setattr(agent._reconciler, "has_listed", True)
    agent._read_node()
    assert squads.asked[-1] == ("SIM-0", [4], set())


def test_a_process_of_no_pod_is_told_of_once_and_to_the_daemon(squads, watch, caplog):
    one = part_of("a", "A")
    squads.by_tenant = {f"{one.uid}/main": [4]}
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            watch.see(look({4: one.key}, one, A=[4, 6]))
    assert squads.asked[-1] == ("A", [4, 6], {4})
    assert [record.message for record in caplog.records] == ["unmanaged process on a shared card: it belongs to no pod"]


def test_a_process_of_a_pod_that_shed_the_library_is_marked_in_reports(squads, watch, monkeypatch, caplog):
    monkeypatch.setattr(unmanaged, "GRACE_S", 0.0)
    one = part_of("a", "A")
    squads.by_tenant = {f"{one.uid}/main": [4]}
    what = look({4: one.key, 5: one.key}, one, A=[4, 5])
    with caplog.at_level(logging.WARNING):
        watch.see(what)
    message = ReportBuilder(None, lambda: watch.unheld).message(what)
    assert [(each["pid"], each["unheld"]) for each in message["cards"][0]["processes"]] == [(4, False), (5, True)]
    assert squads.asked[-1] == ("A", [4, 5], {4})
    assert "belongs to a pod with a share, but runs without the library" in caplog.text


def test_what_the_agent_reports_is_marked_by_its_lookout(tmp_path, watch, monkeypatch):
    settings = AgentSettings("n", tmp_path, server="https://service.invalid", logs=None)
    agent = NodeAgent(settings, SimulatedInventory(1, tmp_path), cast(Any, NobodyAnswers()))
    monkeypatch.setattr(agent, "_unmanaged", watch)
    monkeypatch.setattr(watch, "unheld", frozenset({("A", 5)}))
    one = part_of("a", "A")
    assert agent._reporter is not None
    message = agent._reporter._samples.message(look({5: one.key}, one, A=[5]))
    assert [each["unheld"] for each in message["cards"][0]["processes"]] == [True]
