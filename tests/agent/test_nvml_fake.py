"""Tests of the NVML inventory with a fake binding whose calls fail."""

import threading
from types import SimpleNamespace

import pytest

from gpusquad.agent.inventory import CardReading, SourceUnavailable
from gpusquad.agent.nvml import NvmlInventory
from gpusquad.agent.nvml_calls import NvmlLibrary
from gpusquad.agent.nvml_events import FaultEvents
from tests.agent import fake_nvml
from tests.agent.fake_nvml import FakeNvml

XID, DOUBLE_BIT = 8, 2


@pytest.fixture
def nvml():
    return FakeNvml()


def reading(nvml, **kwargs):
    return NvmlInventory(nvml, **kwargs).read(())[0]


def test_card_facts_come_from_nvml(nvml, tmp_path):
    inventory = NvmlInventory(nvml, pci_devices=tmp_path)
    assert (inventory.driver, inventory.simulated, len(inventory.cards)) == ("580.1", False, 2)
    card = inventory.cards[1]
    assert (card.id, card.index, card.model, card.sms, card.pci) == ("GPU-1", 1, "NVIDIA Fake", 132, "00000000:01:00.0")


def test_reading_has_all_fields(nvml):
    card_reading = reading(nvml)
    assert card_reading == CardReading(
        "GPU-0", 0.75, 0.4, 5 * 2**30, 80 * 2**30, 351.5, 700.0, 61.0, 1980, 3201, 3, 0,
        ("power_cap", "hardware_thermal"), None, None, None, (), None,
    )  # fmt: skip


CALLS = [name for name in fake_nvml._ANSWERS if name.startswith("nvmlDeviceGet") and "HandleByIndex" not in name]


@pytest.mark.parametrize("error", ["NVML_ERROR_NOT_SUPPORTED", "NVML_ERROR_UNKNOWN", "NVML_ERROR_FUNCTION_NOT_FOUND"])
@pytest.mark.parametrize("name", [name for name in CALLS if name != "nvmlDeviceGetMemoryInfo"])
def test_failed_call_only_clears_its_own_fields(nvml, name, error):
    inventory = NvmlInventory(nvml)
    complete = inventory.read(())[0]
    nvml.fail(name, error)
    card_reading = inventory.read(())[0]
    assert card_reading.trouble is None
    changed = [
        field for field in CardReading.__dataclass_fields__ if getattr(card_reading, field) != getattr(complete, field)
    ]
    assert len(changed) <= 2
    assert all(getattr(card_reading, field) is None for field in changed)


def test_card_without_memory_information_is_healthy(nvml):
    nvml.fail("nvmlDeviceGetMemoryInfo", "NVML_ERROR_NOT_SUPPORTED")
    card_reading = reading(nvml)
    assert (card_reading.trouble, card_reading.memory_used_bytes, card_reading.utilisation_ratio) == (None, None, 0.75)


@pytest.mark.parametrize("name", CALLS)
def test_cards_are_listed_when_one_call_fails(nvml, name):
    nvml.fail(name, "NVML_ERROR_UNKNOWN")
    inventory = NvmlInventory(nvml)
    assert len(inventory.cards) == (0 if name == "nvmlDeviceGetCount" else 2)
    assert len({card.id for card in inventory.cards}) == len(inventory.cards)


def test_unexpected_error_of_the_binding_clears_one_field(nvml, monkeypatch):
    def fail(*arguments):
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad name")

    monkeypatch.setitem(fake_nvml._ANSWERS, "nvmlDeviceGetPowerUsage", fail)
    card_reading = reading(nvml)
    assert (card_reading.power_w, card_reading.temperature_c) == (None, 61.0)


def test_missing_driver_raises_but_an_empty_list_of_cards_does_not(nvml):
    nvml.fail("nvmlInit", "NVML_ERROR_DRIVER_NOT_LOADED")
    with pytest.raises(SourceUnavailable, match="NVML does not start: error 9"):
        NvmlInventory(nvml)
    assert NvmlInventory(FakeNvml(0)).cards == []


# -- topology ------------------------------------------------------------------------------------------------------


def domains(nvml, numa, tmp_path):
    for card, node in enumerate(numa):
        folder = tmp_path / f"0000:{card:02x}:00.0"
        folder.mkdir()
        (folder / "numa_node").write_text(f"{node}\n")
    return [card.domain for card in NvmlInventory(nvml, pci_devices=tmp_path).cards]


def test_cards_linked_by_nvlink_share_a_domain(tmp_path):
    nvml = FakeNvml(6)
    nvml.linked = {(0, 2), (2, 4), (1, 3)}
    assert domains(nvml, [0] * 6, tmp_path) == [0, 1, 0, 1, 0, 2]


def test_cards_of_a_numa_node_share_a_domain_without_nvlink(tmp_path):
    assert domains(FakeNvml(4), [0, 1, 0, -1], tmp_path) == [0, 1, 0, 0]


def test_domain_is_single_without_nvlink_and_numa(tmp_path):
    assert domains(FakeNvml(3), [], tmp_path) == [0, 0, 0]


# -- processes -----------------------------------------------------------------------------------------------------


def test_processes_are_read_with_memory_and_utilisation(nvml):
    nvml.processes[0] = [SimpleNamespace(pid=7, usedGpuMemory=100), SimpleNamespace(pid=8, usedGpuMemory=None)]
    nvml.utilisation[0] = [
        SimpleNamespace(pid=7, smUtil=60, timeStamp=1000),
        SimpleNamespace(pid=9, smUtil=4_000_000_000, timeStamp=1000),
    ]
    inventory = NvmlInventory(nvml)
    first, second = inventory.read(())[0].processes
    assert (first.pid, first.memory_bytes, first.utilisation_ratio, first.name) == (7, 100, 0.6, "program-7")
    assert (second.pid, second.memory_bytes, second.utilisation_ratio) == (8, None, 0.0)
    # Without new samples the utilisation is unknown.
    assert [process.utilisation_ratio for process in inventory.read(())[0].processes] == [None, None]


# -- lost cards ----------------------------------------------------------------------------------------------------


class Clock:
    """Clock set by the test, with an inventory that uses it."""

    def __init__(self, nvml, **kwargs):
        self.now_s = 100.0
        self.inventory = NvmlInventory(nvml, clock_s=lambda: self.now_s, **kwargs)

    def troubles(self, after_s=0.0):
        """Read once a second for ``after_s`` and return the troubles of the last reading."""
        for _ in range(int(after_s)):
            self.now_s += 1.0
            self.inventory.read(())
        return [card_reading.trouble for card_reading in self.inventory.read(())]


GONE = "the card is gone: the driver does not list it"


def test_lost_card_stays_in_the_inventory_and_recovers(nvml):
    clock = Clock(nvml)
    nvml.lose(1)
    assert clock.troubles() == [None, "the card is lost: error 15"]
    assert clock.troubles(30)[1]
    assert [card.id for card in clock.inventory.cards] == ["GPU-0", "GPU-1"]
    nvml.heal()
    assert clock.troubles(60) == [None, None]
    assert nvml.opened == 1


def test_card_is_not_failed_at_once_when_it_does_not_answer(nvml):
    clock = Clock(nvml)
    nvml.fail("nvmlDeviceGetMemoryInfo", "NVML_ERROR_UNKNOWN", 0)
    assert clock.troubles() == clock.troubles(9) == [None, None]
    assert clock.troubles(1) == ["the card does not answer: error 999", None]
    nvml.heal()
    assert clock.troubles() == [None, None]


def test_healthy_card_is_not_failed_when_reopening_the_library_fails_once(nvml):
    clock = Clock(nvml)
    nvml.lose(1)
    nvml.fail("nvmlInit", "NVML_ERROR_UNKNOWN")
    clock.troubles(3)
    nvml.broken.pop(("nvmlInit", None))
    assert clock.troubles(5)[0] is None
    assert nvml.opened == 1


def test_lost_card_is_not_queried_repeatedly(nvml):
    inventory = NvmlInventory(nvml)
    nvml.lose(1)
    nvml.calls.clear()
    inventory.read(())
    lost = nvml.calls
    nvml.calls = []
    nvml.heal()
    inventory.read(())
    assert len(lost) <= len(nvml.calls) // 2 + 2


def unload(nvml):
    nvml.lose(0)
    nvml.fail("nvmlInit", "NVML_ERROR_DRIVER_NOT_LOADED")
    nvml.fail("nvmlDeviceGetCount", "NVML_ERROR_UNINITIALIZED")


def test_all_cards_fail_until_an_unloaded_driver_is_loaded_again(nvml):
    clock = Clock(nvml)
    unload(nvml)
    assert all(clock.troubles(20))
    nvml.heal()
    assert clock.troubles(30) == [None, None]


def test_inventory_gives_up_when_the_driver_stays_unloaded(nvml):
    clock = Clock(nvml)
    unload(nvml)
    with pytest.raises(SourceUnavailable):
        clock.troubles(200)


def test_expected_cards_that_are_absent_are_reported_missing(nvml):
    clock = Clock(FakeNvml(1), expect=["GPU-0", "GPU-7"])
    assert [card.id for card in clock.inventory.cards] == ["GPU-0", "GPU-7"]
    assert clock.troubles() == clock.troubles(9) == [None, None]
    assert clock.troubles(1) == [None, GONE]


def test_all_expected_cards_are_missing_without_a_driver(nvml):
    unload(nvml)
    clock = Clock(nvml, expect=["GPU-0", "GPU-1"])
    assert clock.troubles(15) == [GONE, GONE]
    nvml.heal()
    assert clock.troubles(40) == [None, None]


@pytest.mark.parametrize(
    ("action", "trouble"), [(0, None), (1, "the driver says: it needs a reset"), (4, None), (77, None)]
)
def test_card_is_failed_when_it_needs_a_reset(nvml, action, trouble):
    nvml.recovery[0] = action
    assert reading(nvml).trouble == trouble


# -- events --------------------------------------------------------------------------------------------------------


@pytest.fixture
def watch(nvml):
    faults, arrived = [], threading.Event()

    def on_fault(card, cause, kind):
        faults.append((card, cause, kind))
        if kind != "program":
            arrived.set()

    events = FaultEvents(NvmlLibrary(nvml), {"GPU-0": 0, "GPU-1": 1}, on_fault)
    yield SimpleNamespace(faults=faults, arrived=arrived, events=events)
    events.close()


def test_xids_are_reported(nvml, watch):
    nvml.raise_event(1, XID, 79)
    assert watch.arrived.wait(30)
    assert watch.faults == [("GPU-1", "Xid 79", "card")]


def test_xids_are_reported_with_what_they_say_about_the_card(nvml, watch):
    for xid in (13, 31, 63, 154, 32):
        nvml.raise_event(0, XID, xid)
    assert watch.arrived.wait(30)
    nvml.raise_event(0, DOUBLE_BIT, 0)
    watch.events.close()
    assert watch.faults[:3] == [
        ("GPU-0", "Xid 13", "program"), ("GPU-0", "Xid 31", "program"), ("GPU-0", "Xid 32", "doubtful")
    ]  # fmt: skip
    assert watch.faults[3:] in ([], [("GPU-0", "uncorrected memory error (double bit ECC)", "card")])


def test_double_bit_error_is_the_cards(nvml, watch):
    nvml.raise_event(0, DOUBLE_BIT, 0)
    assert watch.arrived.wait(30)
    assert watch.faults == [("GPU-0", "uncorrected memory error (double bit ECC)", "card")]


def test_event_of_an_unknown_card_is_ignored(nvml, watch):
    nvml.fail("nvmlDeviceGetUUID", "NVML_ERROR_GPU_IS_LOST")
    nvml.raise_event(7, XID, 79)
    nvml.raise_event(0, XID, 79)
    assert watch.arrived.wait(30)
    assert watch.faults == [("GPU-0", "Xid 79", "card")]


def test_event_wait_is_retried_after_an_error(nvml, watch):
    nvml.fail("nvmlEventSetWait_v2", "NVML_ERROR_GPU_IS_LOST")
    assert nvml.failed.wait(30)
    nvml.heal()
    nvml.raise_event(0, XID, 48)
    assert watch.arrived.wait(30)


def test_fault_events_are_off_when_cards_do_not_support_them(nvml):
    nvml.fail("nvmlDeviceGetSupportedEventTypes", "NVML_ERROR_NOT_SUPPORTED")
    events = FaultEvents(NvmlLibrary(nvml), {"GPU-0": 0}, lambda card, cause, kind: None)
    assert not events.listening
    events.close()
    nvml.heal()
    nvml.fail("nvmlEventSetCreate", "NVML_ERROR_NOT_SUPPORTED")
    assert not FaultEvents(NvmlLibrary(nvml), {"GPU-0": 0}, lambda card, cause, kind: None).listening
