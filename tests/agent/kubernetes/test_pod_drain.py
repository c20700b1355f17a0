"""Tests of draining a pod's work from shared cards before the pod is killed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from gpusquad.agent.kubernetes.agent import AgentSettings, NodeAgent
from gpusquad.agent.kubernetes.pod_drain import PodDrainer
from gpusquad.agent.kubernetes.pods import Container, Pod
from gpusquad.agent.kubernetes.sharing_settings import SharingSettings
from gpusquad.agent.simulated import SimulatedInventory
from gpusquad.gpu.api import Holder, NoSharing
from tests.agent.kubernetes.fake_kubelet import pod
from tests.gpu.attach.conftest import Place, attach, clients, until
from tests.gpu.attach.conftest import built as built
from tests.gpu.attach.conftest import driver as driver
from tests.gpu.attach.conftest import library as library
from tests.gpu.attach.conftest import mps as mps
from tests.gpu.attach.conftest import place as place
from tests.gpu.attach.fake_mps import FakeMps

NOW_S = 1_800_000_000.0


class FakeSharing(NoSharing):
    """Records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.isolated: set[str] = set()
        self.problem: Exception | None = None
        self.is_done = True
        self.may_answer = threading.Event()
        self.may_answer.set()

    def is_pooled(self, holder: Holder) -> bool:
        return holder.part not in self.isolated

    def pause(self, holders: Sequence[Holder], within_s: float) -> bool:
        self.calls.append(("pause", [holder.part for holder in holders], within_s))
        return True

    def drain(self, holder: Holder, pids: Collection[int] = (), within_s: float = 5.0) -> bool:
        self.may_answer.wait()
        self.calls.append(("drain", f"{holder.owner}/{holder.part}", set(pids), within_s))
        if self.problem is not None:
            raise self.problem
        return self.is_done


@pytest.fixture
def sharing() -> FakeSharing:
    return FakeSharing()


@pytest.fixture
def drainer(sharing: FakeSharing) -> PodDrainer:
    return PodDrainer(sharing, 1.0, lambda: NOW_S)


def pod_killed_in(pod_name: str, in_s: float | None, *containers: str, **more: Any) -> Pod:
    at_s = None if in_s is None else NOW_S + in_s
    listed = [Container(name, 1) for name in containers or ("main",)]
    return pod(pod_name, listed, is_leaving=in_s is not None, killed_at_s=at_s, **more)


def finish() -> None:
    for thread in threading.enumerate():
        if thread.name == "gpusquad-drain":
            thread.join()


def test_pod_is_drained_once_before_it_is_killed(sharing, drainer):
    leaves, stays = pod_killed_in("leaves", 1.5), pod_killed_in("stays", None)
    for _ in range(3):
        drainer.hear([leaves, stays], {4: leaves.key, 5: stays.key, 6: leaves.key})
    finish()
    assert sharing.calls == [("drain", "uid-of-leaves/main", {4, 6}, 1.5)]


def test_pod_is_not_drained_before_the_last_two_seconds_of_its_grace(sharing, drainer):
    drainer.hear(
        [pod_killed_in("a", 3.5), pod_killed_in("b", 1.0, has_ended=True), pod("c", [], killed_at_s=NOW_S)], {}
    )
    finish()
    assert sharing.calls == []
    drainer.hear([pod_killed_in("a", 1.0)], {})  # a second deletion may shorten it
    finish()
    assert sharing.calls == [("drain", "uid-of-a/main", set(), 1.0)]


def test_drain_between_two_looks_starts_two_seconds_before_the_kill(sharing, monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    PodDrainer(sharing, 1.0, lambda: NOW_S).hear([pod_killed_in("a", 2.75)], {})
    finish()
    assert slept == [0.75]


def test_overdue_pod_is_still_drained(sharing, drainer):
    drainer.hear([pod_killed_in("late", -20.0)], {})
    finish()
    assert sharing.calls == [("drain", "uid-of-late/main", set(), 0.1)]


def test_all_pooled_containers_are_paused_before_one_is_drained(sharing, drainer):
    sharing.isolated = {"alone"}
    leaves = pod_killed_in("leaves", 2.0, "one", "alone", "two")
    drainer.hear([leaves], {4: leaves.key})
    finish()
    assert sharing.calls == [
        ("pause", ["one", "two"], 2.0),
        ("drain", "uid-of-leaves/one", {4}, 2.0),
        ("drain", "uid-of-leaves/two", {4}, 2.0),
    ]


def test_container_outside_the_mps_pool_is_not_drained(sharing, drainer, caplog):
    sharing.isolated = {"main"}
    drainer.hear([pod_killed_in("leaves", 1.0)], {})
    finish()
    assert sharing.calls == []
    assert caplog.records == []


@pytest.mark.parametrize("problem", [None, RuntimeError("the moon")])
def test_incomplete_drain_is_logged(sharing, drainer, caplog, problem):
    sharing.is_done, sharing.problem = False, problem
    with caplog.at_level(logging.WARNING):
        drainer.hear([pod_killed_in("leaves", 1.0)], {})
        finish()
    [record] = caplog.records
    assert "default/leaves" in record.getMessage()


def test_hanging_card_delays_neither_looks_nor_other_pods(sharing, drainer):
    sharing.may_answer.clear()
    drainer.hear([pod_killed_in("a", 1.0)], {})
    drainer.hear([pod_killed_in("a", 1.0), pod_killed_in("b", 1.0)], {})
    sharing.may_answer.set()
    finish()
    assert sorted(call[1] for call in sharing.calls) == ["uid-of-a/main", "uid-of-b/main"]


class UnusedApi:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError("the API is not used")


def test_agent_drains_pods_at_every_look_when_cards_are_shared(tmp_path: Path, monkeypatch, sharing, drainer):
    inventory = SimulatedInventory(1, tmp_path)
    agent = NodeAgent(AgentSettings("n", tmp_path), inventory, cast(Any, UnusedApi()))
    assert agent._drainer is None  # cards are not shared here
    settings = SharingSettings("enforce", tmp_path / "run")
    agent = NodeAgent(AgentSettings("n", tmp_path, sharing=settings), inventory, cast(Any, UnusedApi()))
    assert agent._drainer is not None
    monkeypatch.setattr(agent, "_drainer", drainer)
    monkeypatch.setattr(agent, "_unmanaged", None)
    monkeypatch.setattr(agent._pods, "list_cached", lambda: [pod_killed_in("leaves", 1.0)])
    agent.cards.start()
    agent._read_node()
    finish()
    assert [call[:2] for call in sharing.calls] == [("drain", "uid-of-leaves/main")]


def test_pod_is_drained_with_a_real_daemon(place: Place, mps: FakeMps):
    quota = place.quota(has_mps=True)
    players = [place.player(attach(quota, name)) for name in ("leaves", "stays")]
    for player in players:
        player.stage()
        player.send("stage.play(given)", [["kernels", 10**6, "legacy", 0, "add", 200]])
    until(lambda: all(client["attained_us"] > 0 for client in clients(quota).values()), "they do not run")
    pid = players[0].process.pid
    mps.put("clients", f"{pid}\n{players[1].process.pid}\n")
    leaves = pod("leaves", [Container("0", 1)], uid="leaves", is_leaving=True, killed_at_s=NOW_S)
    PodDrainer(quota, 1.0, lambda: NOW_S - 2.0).hear([leaves], {pid: leaves.key})
    until(lambda: f"terminate_client 77 {pid}" in mps.commands, "MPS does not let go of it")
    seen = clients(quota)
    assert (seen["leaves/0"]["is_held"], seen["leaves/0"]["in_flight"]) == (True, 0)
    assert not seen["stays/0"]["is_held"]
    assert mps.count("terminate_client") == 1
