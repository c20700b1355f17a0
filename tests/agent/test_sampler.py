"""Tests of the inventory and samples messages."""

import pytest

from gpusquad.agent.health import CardHealth
from gpusquad.agent.inventory import CardInfo, CardProcess, CardReading
from gpusquad.agent.job_processes import Processes
from gpusquad.agent.machine import HostResources
from gpusquad.agent.sampler import Sampler, inventory_message
from gpusquad.agent.wire import WatchedRun, encode

NOW = 2_000_000_000_000_000


class FakeInventory:
    """An inventory whose readings the test sets."""

    simulated, driver = False, "1.2"

    def __init__(self, *readings):
        self.readings = list(readings)
        self.cards = [CardInfo(card.id, n, "M", 1, 1, 0, "") for n, card in enumerate(readings)]

    def read(self, processes):
        return self.readings

    def watch(self, on_fault): ...

    def close(self): ...


class FakeProcesses(Processes):
    """Owners by pid, without /proc."""

    def __init__(self, owners):
        super().__init__()
        self.owners = owners

    def look(self, runs):
        return []

    def owner(self, pid):
        return self.owners.get(pid)

    def name(self, pid):
        return ""


def sampler_of(cards, owners=None):
    health = CardHealth([card.id for card in cards.cards])
    return Sampler(cards, health, FakeProcesses(owners or {}), now_us=lambda: NOW, clock_s=lambda: 0.0)


def run(folder, cards=("A",), job="J1"):
    return WatchedRun(job, 2, str(folder), tuple(cards), ())


def test_inventory_message_has_every_field():
    message = inventory_message(FakeInventory(CardReading("A")), HostResources("host", 2000, 10**9))
    assert message == {
        "kind": "inventory",
        "simulated": False,
        "driver": "1.2",
        "node": {
            "id": "host", "cpu_milli": 2000, "memory_bytes": 10**9,
            "cards": [{"id": "A", "index": 0, "model": "M", "memory_bytes": 1, "sms": 1, "domain": 0, "pci": ""}],
        },
    }  # fmt: skip
    encode(message)


def test_samples_message_has_every_field(tmp_path):
    process = CardProcess(7, 100, 0.5, "python")
    cards = FakeInventory(
        CardReading("A", 0.5, power_w=90.0, power_limit_w=700.0, throttle=("power_cap",), processes=(process,))
    )
    (message,) = sampler_of(cards, {7: ("J1", 2)}).sample([run(tmp_path)])
    encode(message)
    assert message["at_us"] == NOW
    assert message["cards"] == [
        {
            "id": "A", "utilisation_ratio": 0.5, "memory_utilisation_ratio": None, "memory_used_bytes": None,
            "memory_total_bytes": None, "power_w": 90.0, "power_limit_w": 700.0, "idle_power_w": 90.0,
            "temperature_c": None, "sm_clock_mhz": None, "memory_clock_mhz": None, "ecc_corrected": None,
            "ecc_uncorrected": None, "throttle": ["power_cap"], "received_bytes_s": None, "idle_received_bytes_s": None,
            "computes": None,
            "processes": [{"pid": 7, "memory_bytes": 100, "name": "python", "job": "J1", "attempt": 2}],
        }
    ]  # fmt: skip
    assert message["runs"] == [
        {
            "job": "J1", "attempt": 2, "last_output_us": None, "log_bytes": 0, "step": None, "total": None,
            "progress_at_us": None, "reported_us": None, "new_us": None,
            "repeated": 0, "troubles": 0, "crashes": 0, "succeeds": False, "retry_us": None,
                "retries": 0, "alike_us": None, "alike": 0, "same_step": 0,
            "same_step_us": None, "longest_step_us": None, "improved_us": None, "ahead_us": None, "falls": 0,
             "restarts": 0, "nan_us": None, "nan_lines": 0, "nan_doubtful": False, "has_losses": False, "steps": 0,
                "ends_in_training": False, "waits": None,
            "waits_detail": "", "stopped_us": None, "stopped_detail": "", "disk_bytes": None,
            "sample": (), "stacks": (), "tasks": 0, "cpu_ratio": None, "rss_bytes": 0, "gpu_ratio": 0.5,
        }
    ]  # fmt: skip


def test_idle_power_is_the_lowest_reading():
    cards = FakeInventory(CardReading("A"))
    sampler = sampler_of(cards)
    seen = []
    for power_w in (None, 300.0, 80.0, None, 500.0):
        cards.readings = [CardReading("A", power_w=power_w)]
        seen.append(sampler.sample(())[-1]["cards"][0]["idle_power_w"])
    assert seen == [None, 300.0, 80.0, 80.0, 80.0]


def test_faults_come_before_the_samples():
    cards = FakeInventory(CardReading("A", trouble="gone"), CardReading("B"))
    fault, samples = sampler_of(cards).sample(())
    assert fault == {"kind": "card_fault", "card": "A", "cause": "gone", "class": "card"}
    assert "trouble" not in samples["cards"][0]


MINE, OTHER = ("J1", 2), ("J2", 0)


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([CardReading("A", 0.9, processes=(CardProcess(1, utilisation_ratio=0.6),))], 0.6),
        ([CardReading("A", 0.9, processes=(CardProcess(1, None, 0.6), CardProcess(9, None, 0.3)))], 0.6),
        ([CardReading("A", 0.9, processes=(CardProcess(1),))], 0.9),
        ([CardReading("A", 0.9, processes=(CardProcess(1), CardProcess(9)))], None),
        ([CardReading("A", 0.9, processes=())], 0.0),
        ([CardReading("A", 0.9, processes=None)], None),
        ([CardReading("A", 0.8, processes=(CardProcess(1),)), CardReading("B", 0.4, processes=(CardProcess(2),))], 0.6),
        ([CardReading("A", 0.8, processes=(CardProcess(1),)), CardReading("B", 0.4)], None),
    ],
)  # fmt: skip
def test_gpu_ratio_of_a_run_is_the_mean_of_its_cards(tmp_path, readings, expected):
    sampler = sampler_of(FakeInventory(*readings), {1: MINE, 2: MINE, 9: OTHER})
    message = sampler.sample([run(tmp_path, [card.id for card in readings])])[-1]
    assert message["runs"][0]["gpu_ratio"] == (None if expected is None else pytest.approx(expected))


def test_gpu_ratio_is_unknown_without_known_cards(tmp_path):
    message = sampler_of(FakeInventory(CardReading("A"))).sample([run(tmp_path, ()), run(tmp_path, ("Z",), "J2")])[-1]
    assert [entry["gpu_ratio"] for entry in message["runs"]] == [None, None]
