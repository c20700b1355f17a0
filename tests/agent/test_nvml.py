"""Tests of the NVML inventory on real NVIDIA cards, compared with nvidia-smi; skipped without a card."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import time

import pytest

from gpusquad.agent.health import CardHealth
from gpusquad.agent.inventory import SourceUnavailable
from gpusquad.agent.machine import this_machine
from gpusquad.agent.nvml import NvmlInventory
from gpusquad.agent.sampler import Sampler, inventory_message
from gpusquad.agent.wire import WatchedRun, encode
from tests.agent import contract

MIB = 2**20


def _skip_reason() -> str:
    """Why these tests cannot run here, or an empty string if they can."""
    try:
        inventory = NvmlInventory()
    except SourceUnavailable as error:
        return str(error)
    count = len(inventory.cards)
    inventory.close()
    return "" if count else "the driver lists no card"


SKIP_REASON = _skip_reason()
pytestmark = pytest.mark.skipif(bool(SKIP_REASON), reason=f"needs an NVIDIA card: {SKIP_REASON}")
needs_smi = pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="needs nvidia-smi")


@pytest.fixture
def inventory():
    source = NvmlInventory()
    yield source
    source.close()


def smi(*fields):
    """Fields of each card as text, in order of index."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return [[value.strip() for value in row.split(",")] for row in output.strip().splitlines()]


def number(text):
    """None where nvidia-smi has no number either ([N/A], [Not Supported])."""
    try:
        return float(text)
    except ValueError:
        return None


def test_inventory_meets_the_contract():
    contract.check(NvmlInventory())


@needs_smi
def test_card_facts_match_nvidia_smi(inventory):
    rows = smi("uuid", "index", "name", "memory.total", "pci.bus_id", "driver_version")
    assert len(rows) == len(inventory.cards)
    for card, (uuid, index, name, total_mib, bus, driver) in zip(inventory.cards, rows, strict=True):
        assert (card.id, card.index, card.model, inventory.driver) == (uuid, int(index), name, driver)
        assert card.pci.upper() == bus.upper()
        assert abs(card.memory_bytes / MIB - float(total_mib)) <= 1


@needs_smi
def test_static_values_match_nvidia_smi(inventory):
    fields = ("memory.total", "enforced.power.limit", "ecc.errors.corrected.volatile.total",
              "ecc.errors.uncorrected.volatile.total")  # fmt: skip
    for reading, row in zip(inventory.read(()), smi(*fields), strict=True):
        total_mib, limit_w, corrected, uncorrected = map(number, row)
        assert reading.memory_total_bytes is None or abs(reading.memory_total_bytes / MIB - total_mib) <= 1
        assert reading.power_limit_w == pytest.approx(limit_w, abs=0.01) or limit_w is None
        assert (reading.ecc_corrected, reading.ecc_uncorrected) == (corrected, uncorrected)


@needs_smi
def test_dynamic_values_match_nvidia_smi_within_rounding(inventory):
    """Each value lies at least once between nvidia-smi's values before and after the reading, within rounding."""
    rounding = {"memory.used": 2.0, "power.draw": 15.0, "temperature.gpu": 1.0, "clocks.sm": 15.0, "clocks.mem": 1.0,
                "utilization.gpu": 1.0, "utilization.memory": 1.0}  # fmt: skip
    unmatched = {(card.id, name) for card in inventory.cards for name in rounding}
    for _ in range(20):
        before, readings, after = smi(*rounding), inventory.read(()), smi(*rounding)
        for reading, low, high in zip(readings, before, after, strict=True):
            values = moving_values(reading)
            for name, a, b in zip(rounding, map(number, low), map(number, high), strict=True):
                if a is None or b is None or (values[name] is not None and near(values[name], a, b, rounding[name])):
                    unmatched.discard((reading.id, name))
        if not unmatched:
            break
    assert not unmatched


def near(value, a, b, tolerance):
    return min(a, b) - tolerance <= value <= max(a, b) + tolerance


def moving_values(reading):
    """Values that change while a card works, in nvidia-smi's names and units."""
    used_bytes, busy, moving = reading.memory_used_bytes, reading.utilisation_ratio, reading.memory_utilisation_ratio
    return {
        "memory.used": None if used_bytes is None else used_bytes / MIB,
        "power.draw": reading.power_w,
        "temperature.gpu": reading.temperature_c,
        "clocks.sm": reading.sm_clock_mhz,
        "clocks.mem": reading.memory_clock_mhz,
        "utilization.gpu": None if busy is None else 100 * busy,
        "utilization.memory": None if moving is None else 100 * moving,
    }


def test_sm_count_matches_cuda(inventory):
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("needs libcuda")
    multiprocessors, pci_order = ctypes.c_int(), os.environ.get("CUDA_DEVICE_ORDER")
    if cuda.cuInit(0) != 0 or (len(inventory.cards) > 1 and pci_order != "PCI_BUS_ID"):
        pytest.skip("CUDA does not start, or counts its cards in another order")
    for card in inventory.cards:
        assert cuda.cuDeviceGetAttribute(ctypes.byref(multiprocessors), 16, card.index) == 0
        assert card.sms == multiprocessors.value


def test_fault_events_can_be_watched(inventory):
    inventory.watch(lambda card, cause: None)
    assert inventory._events is not None
    assert inventory._events.listening
    inventory.watch(lambda card, cause: None)


def test_reopening_nvml_finds_the_same_cards(inventory):
    inventory.watch(lambda card, cause: None)
    inventory._reopen()
    assert [reading.trouble for reading in inventory.read(())] == [None] * len(inventory.cards)


HOLDER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(256 * 2**20)) == 0
print("ready", flush=True)
for line in sys.stdin:
    cuda.cuMemsetD8_v2(memory, ctypes.c_ubyte(1), ctypes.c_size_t(256 * 2**20))
    cuda.cuCtxSynchronize()
"""


@pytest.fixture
def holder(inventory):
    """A process of job J1 that holds memory on the first card."""
    environment = {
        **os.environ,
        "GPUSQUAD_JOB": "J1",
        "GPUSQUAD_ATTEMPT": "3",
        "CUDA_VISIBLE_DEVICES": inventory.cards[0].id,
    }
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        process.wait()
        pytest.skip("CUDA does not start")
    yield process
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.wait(timeout=60)
    process.stdout.close()


def test_process_on_a_card_is_reported_with_its_job(inventory, holder, tmp_path):
    card = inventory.cards[0].id
    sampler = Sampler(inventory, CardHealth([card.id for card in inventory.cards]))
    run = WatchedRun("J1", 3, str(tmp_path), (card,), (holder.pid,))
    samples = sampler.sample([run])[-1]
    encode(samples)
    found = {process["pid"]: process for process in samples["cards"][0]["processes"]}
    if holder.pid not in found:
        pytest.skip(f"the driver counts processes in another namespace: {sorted(found)}")
    assert (found[holder.pid]["job"], found[holder.pid]["attempt"]) == ("J1", 3)
    memory_bytes = found[holder.pid]["memory_bytes"]
    assert memory_bytes is None or memory_bytes >= 256 * MIB
    assert samples["cards"][0]["memory_used_bytes"] >= 256 * MIB


def test_gpu_work_of_a_process_raises_utilisation(inventory, holder, tmp_path):
    card = inventory.cards[0].id
    sampler = Sampler(inventory, CardHealth([card.id for card in inventory.cards]))
    run = WatchedRun("J1", 3, str(tmp_path), (card,), (holder.pid,))
    ends_s, busiest = time.monotonic() + 60, 0.0
    while busiest == 0.0 and time.monotonic() < ends_s:
        holder.stdin.write("\n" * 2000)
        holder.stdin.flush()
        samples = sampler.sample([run])[-1]
        busiest = max(busiest, samples["runs"][0]["gpu_ratio"] or 0.0, samples["cards"][0]["utilisation_ratio"] or 0.0)
    assert busiest > 0.0


def test_messages_of_a_real_card_can_be_encoded(inventory):
    message = inventory_message(inventory, this_machine())
    encode(message)
    print(message)  # shown with -s, useful on a new card model
    print(Sampler(inventory, CardHealth([card.id for card in inventory.cards])).sample(())[-1])
