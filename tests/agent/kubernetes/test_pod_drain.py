"""What pods that are about to be killed have on cards that they share."""

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
    """Remembers what it is asked."""

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
def squads() -> FakeSharing:
    return FakeSharing()


@pytest.fixture
def leaving(squads: FakeSharing) -> PodDrainer:
    return PodDrainer(squads, 1.0, lambda: NOW_S)


def going(name: str, in_s: float | None, *containers: str, **more: Any) -> Pod:
    at_s = None if in_s is None else NOW_S + in_s
    named = [Container(each, 1) for each in containers or ("main",)]
    return pod(name, named, is_leaving=in_s is not None, killed_at_s=at_s, **more)


def finish() -> None:
    for thread in threading.enumerate():
        if thread.name == "gpusquad-drain":
            thread.join()


def test_what_a_pod_has_on_the_card_is_done_before_it_is_killed(squads, leaving):
    leaves, stays = going("leaves", 1.5), going("stays", None)
    for _ in range(3):
        leaving.hear([leaves, stays], {4: leaves.key, 5: stays.key, 6: leaves.key})
    finish()
    assert squads.calls == [("drain", "uid-of-leaves/main", {4, 6}, 1.5)]


def test_while_its_grace_period_is_long_it_has_the_card(squads, leaving):
    leaving.hear([going("a", 3.5), going("b", 1.0, has_ended=True), pod("c", [], killed_at_s=NOW_S)], {})
    finish()
    assert squads.calls == []
    leaving.hear([going("a", 1.0)], {})  # a second deletion may shorten it
    finish()
    assert squads.calls == [("drain", "uid-of-a/main", set(), 1.0)]


def test_its_last_two_seconds_are_met_between_two_looks(squads, monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    PodDrainer(squads, 1.0, lambda: NOW_S).hear([going("a", 2.75)], {})
    finish()
    assert slept == [0.75]


def test_one_that_should_be_gone_already_is_held_all_the_same(squads, leaving):
    leaving.hear([going("late", -20.0)], {})
    finish()
    assert squads.calls == [("drain", "uid-of-late/main", set(), 0.1)]


def test_all_containers_of_a_pool_rest_before_mps_lets_go_of_one(squads, leaving):
    squads.isolated = {"alone"}
    leaves = going("leaves", 2.0, "one", "alone", "two")
    leaving.hear([leaves], {4: leaves.key})
    finish()
    assert squads.calls == [
        ("pause", ["one", "two"], 2.0),
        ("drain", "uid-of-leaves/one", {4}, 2.0),
        ("drain", "uid-of-leaves/two", {4}, 2.0),
    ]


def test_who_is_in_no_pool_is_left_alone(squads, leaving, caplog):
    squads.isolated = {"main"}
    leaving.hear([going("leaves", 1.0)], {})
    finish()
    assert squads.calls == []
    assert caplog.records == []


@pytest.mark.parametrize("problem", [None, RuntimeError("the moon")])
def test_people_hear_of_work_that_is_left(squads, leaving, caplog, problem):
    squads.is_done, squads.problem = False, problem
    with caplog.at_level(logging.WARNING):
        leaving.hear([going("leaves", 1.0)], {})
        finish()
    [record] = caplog.records
    assert "default/leaves" in record.getMessage()


def test_a_card_that_hangs_holds_up_no_look_and_no_other_pod(squads, leaving):
    squads.may_answer.clear()
    leaving.hear([going("a", 1.0)], {})
    leaving.hear([going("a", 1.0), going("b", 1.0)], {})
    squads.may_answer.set()
    finish()
    assert sorted(call[1] for call in squads.calls) == ["uid-of-a/main", "uid-of-b/main"]


class Nobody:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError("nobody is asked")


def test_the_agent_tells_of_every_look_where_cards_are_shared(tmp_path: Path, monkeypatch, squads, leaving):
    inventory = SimulatedInventory(1, tmp_path)
    agent = NodeAgent(AgentSettings("n", tmp_path), inventory, cast(Any, Nobody()))
    assert agent._drainer is None  # nobody holds anybody here
    sharing = SharingSettings("enforce", tmp_path / "run")
    agent = NodeAgent(AgentSettings("n", tmp_path, sharing=sharing), inventory, cast(Any, Nobody()))
    assert agent._drainer is not None
    monkeypatch.setattr(agent, "_drainer", leaving)
    monkeypatch.setattr(agent, "_unmanaged", None)
    monkeypatch.setattr(agent._pods, "all_known", lambda: [going("leaves", 1.0)])
    agent.cards.start()
    agent._read_node()
    finish()
    assert [call[:2] for call in squads.calls] == [("drain", "uid-of-leaves/main")]


def test_a_real_card_is_done_with_it(place: Place, mps: FakeMps):
    quota = place.quota(has_mps=True)
    both = [place.player(attach(quota, name)) for name in ("leaves", "stays")]
    for player in both:
        player.stage()
        player.send("stage.play(given)", [["kernels", 10**6, "legacy", 0, "add", 200]])
    until(lambda: all(one["attained_us"] > 0 for one in clients(quota).values()), "they do not run")
    pid = both[0].process.pid
    mps.put("clients", f"{pid}\n{both[1].process.pid}\n")
    leaves = pod("leaves", [Container("0", 1)], uid="leaves", is_leaving=True, killed_at_s=NOW_S)
    PodDrainer(quota, 1.0, lambda: NOW_S - 2.0).hear([leaves], {pid: leaves.key})
    until(lambda: f"terminate_client 77 {pid}" in mps.commands, "MPS does not let go of it")
    seen = clients(quota)
    assert (seen["leaves/0"]["is_held"], seen["leaves/0"]["in_flight"]) == (True, 0)
    assert not seen["stays/0"]["is_held"]
    assert mps.count("terminate_client") == 1
