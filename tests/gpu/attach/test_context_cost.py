"""Memory cost of a CUDA context, measured by creating one on the stand-in driver."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpusquad.gpu.attach import context_cost
from gpusquad.gpu.attach.card_manager import CONTEXT, CardManager
from gpusquad.gpu.attach.context_cost import MAX_BYTES, MIN_BYTES, measure_and_save, saved_context_cost
from gpusquad.gpu.attach.settings import CardSharingSettings
from gpusquad.gpu.nvml import NvmlError
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid, NotReady
from tests.gpu.attach.conftest import CARD, MIB, Place, attach, clients, holder
from tests.gpu.shim.clients import standin_only

COST = 37 * MIB
OUT_OF_MEMORY = 2
pytestmark = standin_only("uses the card of the stand-in driver")
_PRINT_UUID = """
import ctypes
nvml, card, text = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.create_string_buffer(96)
assert nvml.nvmlInit_v2() == 0 == nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card))
nvml.nvmlDeviceGetUUID(card, text, 96)
print(text.value.decode())
"""


@pytest.fixture
def uuid(place: Place, monkeypatch: pytest.MonkeyPatch) -> str:
    """UUID of the stand-in's card. All processes started by the test use this card."""
    place.environment["STANDIN_CONTEXT_BYTES"] = str(COST)
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    printed = subprocess.run([sys.executable, "-c", _PRINT_UUID], capture_output=True, text=True, check=True)
    return printed.stdout.strip()


def test_context_cost_is_measured_by_creating_a_context(uuid: str) -> None:
    assert context_cost.measure_in_new_process(uuid) == COST


def test_measured_context_cost_is_charged_to_each_process(place: Place, uuid: str) -> None:
    quota = place.quota(context_bytes="auto", uuid_of=lambda _: uuid)
    attachment = attach(quota, "a", 100)
    peers = [place.peer(attachment), place.peer(attachment)]
    assert clients(quota)["a/0"]["used_bytes"] == 2 * COST
    assert [peer("alloc(30 * MIB)")[0] for peer in peers] == [OUT_OF_MEMORY, OUT_OF_MEMORY]
    assert peers[0]("alloc(26 * MIB)")[0] == 0
    with pytest.raises(Invalid, match="charged for the CUDA context of a process"):
        attach(quota, "b", 37)


def test_context_cost_is_stored_per_driver_version(
    uuid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    file = tmp_path / CONTEXT
    loaded = tmp_path / "version"
    monkeypatch.setattr(context_cost, "_DRIVER_VERSION_FILE", loaded)
    loaded.write_text("580.1\n")
    assert saved_context_cost(file) is None
    assert measure_and_save(uuid, file) == COST
    assert json.loads(file.read_text()) == {"bytes": COST, "driver": "580.1"}
    assert "a CUDA context costs 38.8 MB" in caplog.text
    assert saved_context_cost(file) == COST
    loaded.write_text("590.1\n")
    assert saved_context_cost(file) is None


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"bytes": "x", "driver": ""}', '{"bytes": 42949672960, "driver": ""}']
)
def test_invalid_context_cost_file_is_ignored(tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_cost, "_DRIVER_VERSION_FILE", tmp_path / "none")
    (tmp_path / CONTEXT).write_text(content)
    assert saved_context_cost(tmp_path / CONTEXT) is None


def test_context_cost_is_returned_when_it_cannot_be_stored(uuid: str, tmp_path: Path) -> None:
    assert measure_and_save(uuid, tmp_path / "none" / CONTEXT) == COST


def test_context_charge_does_not_change_while_clients_are_attached(place: Place, uuid: str) -> None:
    attachment = attach(place.quota(uuid_of=lambda _: uuid), "a", 30)
    assert place.peer(attachment).started == 0
    quota = place.quota(context_bytes="auto", uuid_of=lambda _: uuid)
    quota.maintain()
    assert place.peer(attachment).started == 0, "its share was requested when contexts cost nothing"
    quota.resize(holder("a"), 25 * MIB)
    assert quota.status(CARD.id)["context_bytes"] == 0
    quota.release_all_but(set())
    attach(quota, "b", 100)
    assert quota.status(CARD.id)["context_bytes"] == COST
    with pytest.raises(Invalid, match=r"^memory: .*charged for"):
        quota.resize(holder("b"), COST)


@pytest.mark.parametrize(
    ("output", "cause"), [("", "''"), ("hm", "'hm'"), ("[5]", "output"), ('{"bytes": null}', "output")]
)
def test_context_cost_is_not_ready_when_the_program_fails(
    monkeypatch: pytest.MonkeyPatch, output: str, cause: str
) -> None:
    monkeypatch.setattr(context_cost, "_PROGRAM", (sys.executable, "-c", f"print({output!r})"))
    with pytest.raises(NotReady, match=cause):
        context_cost.measure_in_new_process("GPU-1")
    monkeypatch.setattr(context_cost, "_PROGRAM", ("/none",))
    with pytest.raises(NotReady, match="No such file"):
        context_cost.measure_in_new_process("GPU-1")


def test_failed_measurement_is_logged_and_charges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    manager = CardManager(Card("GPU-1"), CardSharingSettings(folder=tmp_path / "run"))
    assert manager.context_bytes() == manager.context_bytes() == 0
    (record,) = caplog.records
    assert "GPU-1: CUDA contexts are not charged to memory quotas: context_bytes: " in record.getMessage()
    assert "set it in the sharing settings" in record.getMessage()
    assert not (manager.folder / CONTEXT).exists()  # the next service tries again


def test_context_cost_of_a_simulated_card_is_zero(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert CardManager(Card("sim-0"), CardSharingSettings(folder=tmp_path / "run")).context_bytes() == 0
    assert caplog.records == []


def test_hanging_measurement_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_cost, "_PROGRAM", (sys.executable, "-c", "import time; time.sleep(60)"))
    monkeypatch.setattr(context_cost, "TIMEOUT_S", 0.2)
    with pytest.raises(NotReady, match=r"within 0\.2 s"):
        context_cost.measure_in_new_process("GPU-1")


@dataclass
class FakeNvmlCard:
    """Card with scripted NVML readings: used bytes alternately without and with a context, and the process lists."""

    used: list[int]
    listed: list[dict[int, int]] | None = None

    def used_bytes(self) -> int:
        return self.used.pop(0)

    def by_process(self) -> dict[int, int]:
        if self.listed is None:
            raise NvmlError("not here")
        return self.listed.pop(0) if len(self.listed) > 1 else self.listed[0]


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_cost, "_driver", lambda: lambda *_: None)


@pytest.mark.usefixtures("no_driver")
def test_cost_is_the_growth_of_used_memory_when_nvml_lists_no_processes() -> None:
    grown = [MIB * mib for mib in (100, 620, 120, 622, 120, 621, 120)]
    assert context_cost.measure_in_this_process(FakeNvmlCard(grown)) == 502 * MIB  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize(
    "used",
    [
        (100, 600, 100, 1200, 700, 1200, 700),  # another process started during the measurement
        (100, 2000, 1900, 3800, 3700, 5600, 5500),  # another process allocated all the time
        (100,) * 7,
        (0, 9000, 0, 9000, 0, 9000, 0),
    ],
)
def test_measurement_fails_when_the_used_memory_is_implausible(used: tuple[int, ...]) -> None:
    with pytest.raises(context_cost.DriverError, match="other processes use the card as well"):
        context_cost.measure_in_this_process(FakeNvmlCard([MIB * mib for mib in used]))  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_driver")
def test_cost_is_the_entry_of_the_process_when_its_pid_is_unambiguous() -> None:
    me = os.getpid()
    assert context_cost.measure_in_this_process(FakeNvmlCard([0], [{}, {me: MIN_BYTES}])) == MIN_BYTES  # type: ignore[arg-type]
    used = [0, MAX_BYTES, 0, MAX_BYTES, 0, MAX_BYTES, 0]
    ambiguous = FakeNvmlCard(used, [{me: 500 * MIB}])  # the PID belongs to another process outside the PID namespace
    assert context_cost.measure_in_this_process(ambiguous) == MAX_BYTES  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argv", "code", "message"), [([], 2, "usage"), (["GPU-1", "GPU-2"], 2, "usage"), (["GPU-1"], 1, "")]
)
def test_main_rejects_bad_arguments_and_reports_failure(
    argv: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert context_cost.main(argv) == code
    assert message in capsys.readouterr().err != ""
