"""Tests of the health of a node's cards."""

from __future__ import annotations

import threading
from pathlib import Path

from gpusquad.agent.inventory import JobProcess
from gpusquad.agent.kubernetes.node_cards import NodeCards
from gpusquad.agent.self_test import CardTests
from gpusquad.agent.simulated import FAULTS_FILE, SimulatedInventory


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_card_is_unhealthy_until_it_was_well_for_thirty_seconds(tmp_path: Path):
    clock = Clock()
    cards = NodeCards(SimulatedInventory(2, tmp_path), well_for_s=30.0, clock_s=clock)
    cards.start()
    assert (cards.is_ok("SIM-0"), cards.is_ok("SIM-1"), cards.version) == (True, True, 0)
    (tmp_path / FAULTS_FILE).write_text('{"SIM-1": "too hot"}')
    cards.look(())
    assert (cards.is_ok("SIM-0"), cards.is_ok("SIM-1"), cards.version) == (True, False, 1)
    assert cards.why_not("SIM-1") == "too hot"
    (tmp_path / FAULTS_FILE).unlink()
    cards.look(())
    assert not cards.is_ok("SIM-1")
    clock.now_s = 31.0
    cards.look(())
    assert (cards.is_ok("SIM-1"), cards.version) == (True, 2)
    cards.look(())
    assert cards.version == 2


def test_card_with_a_fault_at_start_is_not_ok(tmp_path: Path):
    (tmp_path / FAULTS_FILE).write_text('{"SIM-0": "lost"}')
    cards = NodeCards(SimulatedInventory(1, tmp_path))
    cards.start()
    assert not cards.is_ok("SIM-0")
    assert [card["ok"] for card in cards.description()] == [False]


def test_card_with_a_doubtful_fault_is_tested_when_it_is_empty_and_returns(tmp_path: Path):
    (tmp_path / FAULTS_FILE).write_text('{"process:poison": "Xid 32"}')
    inventory = SimulatedInventory(1, tmp_path)
    cards = NodeCards(inventory, clock_s=Clock())
    cards.tests = CardTests(inventory.tester, in_background=lambda run: run())
    cards.start()
    process = JobProcess(1, "poison", "J", 0, ("SIM-0",), None, 0)
    for _ in range(2):
        cards.look([process])
    (fault,) = cards.description()
    assert (fault["ok"], fault["fault"], fault["fault_class"]) == (False, "Xid 32", "doubtful")
    for _ in range(2):
        cards.look([])
    assert cards.is_ok("SIM-0")
    assert "fault" not in cards.description()[0]


def test_unknown_card_is_not_ok(tmp_path: Path):
    assert not NodeCards(SimulatedInventory(1, tmp_path)).is_ok("SIM-7")


def test_wait_returns_when_a_card_changes(tmp_path: Path):
    cards = NodeCards(SimulatedInventory(1, tmp_path))
    cards.start()
    seen: list[int] = []
    waiter = threading.Thread(target=lambda: seen.append(cards.wait(0, timeout_s=30.0)))
    waiter.start()
    (tmp_path / FAULTS_FILE).write_text('{"SIM-0": "lost"}')
    cards.look(())
    waiter.join(timeout=30.0)
    assert seen == [1]
