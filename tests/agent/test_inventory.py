"""Tests of the inventory contract for every source, and of the simulated cards."""

import json

import pytest

from gpusquad.agent.inventory import JobProcess
from gpusquad.agent.no_cards import NoCards
from gpusquad.agent.nvml import NvmlInventory
from gpusquad.agent.simulated import FAULTS_FILE, SimulatedInventory
from gpusquad.agent.virtual import VirtualInventory
from tests.agent import contract
from tests.agent.fake_nvml import FakeNvml

GIB = 2**30


@pytest.mark.parametrize("source", ["simulated", "none", "nvml", "virtual"])
def test_inventory_meets_the_contract(source, tmp_path):
    sources = {
        "simulated": lambda: SimulatedInventory(4, tmp_path),
        "none": NoCards,
        "nvml": lambda: NvmlInventory(FakeNvml(4)),
        "virtual": lambda: VirtualInventory(NvmlInventory(FakeNvml(2)), 4),
    }
    contract.check(sources[source]())


def worker(pid=1, cards=("SIM-0",), cpu_ratio=0.5, rss_bytes=GIB):
    return JobProcess(pid, "python", "J1", 0, tuple(cards), cpu_ratio, rss_bytes)


@pytest.fixture
def simulated(tmp_path):
    return SimulatedInventory(2, tmp_path)


def test_simulated_cards_have_the_size_of_large_gpus(simulated):
    first = simulated.cards[0]
    assert (first.id, first.model, first.memory_bytes, first.sms) == ("SIM-0", "Simulated", 80 * GIB, 132)


def test_simulated_utilisation_is_cpu_time_and_memory_is_resident_memory(simulated):
    busy, idle = simulated.read([worker(1), worker(2, cpu_ratio=0.25), worker(3, cpu_ratio=None)])
    assert (busy.utilisation_ratio, busy.memory_used_bytes) == (0.75, 3 * GIB)
    assert [(process.pid, process.memory_bytes) for process in busy.processes] == [(1, GIB), (2, GIB), (3, GIB)]
    assert (idle.utilisation_ratio, idle.memory_used_bytes, idle.processes) == (0.0, 0, ())
    assert idle.power_w < busy.power_w < busy.power_limit_w


def test_process_load_is_split_over_its_simulated_cards(simulated):
    for reading in simulated.read([worker(cards=("SIM-0", "SIM-1"), cpu_ratio=1.0)]):
        assert (reading.utilisation_ratio, reading.memory_used_bytes) == (0.5, GIB // 2)


def test_simulated_utilisation_and_memory_are_capped_at_the_card(simulated):
    full, _ = simulated.read([worker(n, cpu_ratio=9.0, rss_bytes=70 * GIB) for n in range(3)])
    assert (full.utilisation_ratio, full.memory_used_bytes) == (1.0, 80 * GIB)


def test_simulated_card_fails_and_recovers_when_the_fault_file_changes(simulated, tmp_path):
    (tmp_path / FAULTS_FILE).write_text(json.dumps({"SIM-1": "Xid 79", "SIM-9": "not ours"}))
    assert [reading.trouble for reading in simulated.read([])] == [None, "Xid 79"]
    (tmp_path / FAULTS_FILE).write_text("{}")
    assert [reading.trouble for reading in simulated.read([])] == [None, None]


@pytest.mark.parametrize("text", ["", "{", "[]", "5", '{"SIM-1": null}', "\x00", "[" * 60_000])
def test_invalid_fault_file_is_ignored(simulated, tmp_path, text):
    (tmp_path / FAULTS_FILE).write_text(text)
    expected = "simulated fault" if "null" in text else None
    assert [reading.trouble for reading in simulated.read([])] == [None, expected]


def test_invalid_fault_file_is_logged_once(simulated, tmp_path, caplog):
    (tmp_path / FAULTS_FILE).write_text("{")
    simulated.read([])
    simulated.read([])
    assert len(caplog.records) == 1
