"""Tests of virtual cards: physical cards shown as several smaller ones."""

import json

import pytest

from gpusquad.agent.inventory import CardInfo, CardProcess, CardReading, JobProcess, OnFault
from gpusquad.agent.nvml import NvmlInventory
from gpusquad.agent.simulated import FAULTS_FILE, SimulatedInventory
from gpusquad.agent.virtual import VirtualInventory
from gpusquad.model.errors import Invalid
from tests.agent.fake_nvml import FakeNvml

GIB = 2**30


class OneCardInventory:
    """Inventory of one card with 132 SMs; the test sets its reading."""

    simulated = False
    driver = "580"
    cards = (CardInfo("GPU-a", 0, "H200", 141 * GIB, 132, 0, "0:0"),)

    def __init__(self, **read: object) -> None:
        self.reading = CardReading("GPU-a", **read)  # type: ignore[arg-type]
        self.seen: list[JobProcess] = []
        self.on_fault: OnFault | None = None

    def read(self, processes):
        self.seen = list(processes)
        return [self.reading]

    def watch(self, on_fault: OnFault) -> None:
        self.on_fault = on_fault

    def close(self) -> None: ...


def process(pid: int, *cards: str) -> JobProcess:
    return JobProcess(pid, "python", "J1", 1, cards, 0.5, GIB)


def test_virtual_cards_are_equal_and_fit_on_the_card():
    cards = VirtualInventory(OneCardInventory(), 4).cards
    assert [card.id for card in cards] == [f"GPU-a.{n}of4" for n in (1, 2, 3, 4)]
    assert [card.index for card in cards] == [0, 1, 2, 3]
    assert {(card.sms, card.memory_bytes) for card in cards} == {(24, 141 * GIB // 4)}  # 3 of 15 groups of 8


def test_process_counts_on_its_virtual_card_and_unmanaged_ones_on_all():
    inner = OneCardInventory(
        utilisation_ratio=0.9, memory_used_bytes=60, memory_total_bytes=100, power_w=400.0, temperature_c=50.0,
        processes=(CardProcess(1, 10, 0.25), CardProcess(2, 20, 0.5), CardProcess(9, 5, 0.0)),
    )  # fmt: skip
    first, second = VirtualInventory(inner, 2).read([process(1, "GPU-a.1of2"), process(2, "GPU-a.2of2")])
    assert [listed.pid for listed in first.processes] == [1, 9]
    assert [listed.pid for listed in second.processes] == [2, 9]
    assert (first.memory_used_bytes, second.memory_used_bytes) == (15, 25)
    assert (first.utilisation_ratio, second.utilisation_ratio) == (0.25, 0.5)
    assert (first.memory_total_bytes, first.power_w, first.temperature_c) == (50, 200.0, 50.0)
    assert [listed.cards for listed in inner.seen] == [("GPU-a",), ("GPU-a",)]


def test_unreported_values_are_none():
    (first, _) = VirtualInventory(OneCardInventory(utilisation_ratio=0.7, memory_used_bytes=60), 2).read([])
    assert (first.processes, first.memory_used_bytes, first.utilisation_ratio) == (None, None, 0.7)
    known = OneCardInventory(utilisation_ratio=0.7, processes=(CardProcess(1, None, None),))
    first, second = VirtualInventory(known, 2).read([process(1, "GPU-a.1of2")])
    assert (first.utilisation_ratio, first.memory_used_bytes) == (0.7, None)
    assert (second.utilisation_ratio, second.memory_used_bytes) == (0.0, 0)


def test_fault_is_reported_on_every_virtual_card():
    inner, faults = OneCardInventory(), []
    VirtualInventory(inner, 3).watch(lambda *fault: faults.append(fault))
    assert inner.on_fault is not None
    inner.on_fault("GPU-a", "Xid 79", "card")
    assert faults == [(f"GPU-a.{n}of3", "Xid 79", "card") for n in (1, 2, 3)]


def test_simulated_cards_can_be_divided_too(tmp_path):
    inventory = VirtualInventory(SimulatedInventory(2, tmp_path), 2)
    readings = inventory.read([process(1, "SIM-1.2of2")])
    assert [reading.utilisation_ratio for reading in readings] == [0.0, 0.0, 0.0, 0.5]
    (tmp_path / FAULTS_FILE).write_text(json.dumps({"SIM-0": "Xid 79"}))
    assert [reading.trouble for reading in inventory.read([])] == ["Xid 79", "Xid 79", None, None]


@pytest.mark.parametrize("count", [0, 1, 17])
def test_invalid_number_of_virtual_cards_is_rejected(count):
    with pytest.raises(Invalid, match="virtual"):
        VirtualInventory(NvmlInventory(FakeNvml(1)), count)
