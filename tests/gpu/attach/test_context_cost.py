"""What a CUDA context costs: found out by making one, here on the stand-in."""

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
from gpusquad.gpu.attach.context_cost import LEAST_BYTES, MOST_BYTES, kept_context_cost, new_context_cost
from gpusquad.gpu.attach.settings import CardSharingSettings
from gpusquad.gpu.nvml import NvmlError
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid, NotReady
from tests.gpu.attach.conftest import CARD, MIB, Place, attach, clients, holder
from tests.gpu.shim.clients import standin_only

COST = 37 * MIB
OUT_OF_MEMORY = 2
pytestmark = standin_only("looks for a card of the stand-in's")
_TELL_UUID = """
import ctypes
nvml, card, text = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.create_string_buffer(96)
assert nvml.nvmlInit_v2() == 0 == nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card))
nvml.nvmlDeviceGetUUID(card, text, 96)
print(text.value.decode())
"""


@pytest.fixture
def uuid(place: Place, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of the card of the stand-in, which everything that is started from here finds."""
    place.environment["STANDIN_CONTEXT_BYTES"] = str(COST)
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    told = subprocess.run([sys.executable, "-c", _TELL_UUID], capture_output=True, text=True, check=True)
    return told.stdout.strip()


def test_a_context_is_made_and_looked_at(uuid: str) -> None:
    assert context_cost.context_cost(uuid) == COST


def test_what_was_measured_is_charged_to_each_process(place: Place, uuid: str) -> None:
    quota = place.quota(context_bytes="auto", uuid_of=lambda _: uuid)
    told = attach(quota, "a", 100)
    peers = [place.peer(told), place.peer(told)]
    assert clients(quota)["a/0"]["used_bytes"] == 2 * COST
    assert [peer("alloc(30 * MIB)")[0] for peer in peers] == [OUT_OF_MEMORY, OUT_OF_MEMORY]
    assert peers[0]("alloc(26 * MIB)")[0] == 0
    with pytest.raises(Invalid, match="charged for the CUDA context of a process"):
        attach(quota, "b", 37)


def test_what_was_measured_holds_for_a_driver(
    uuid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    file = tmp_path / CONTEXT
    loaded = tmp_path / "version"
    monkeypatch.setattr(context_cost, "_LOADED", loaded)
    loaded.write_text("580.1\n")
    assert kept_context_cost(file) is None
    assert new_context_cost(uuid, file) == COST
    assert json.loads(file.read_text()) == {"bytes": COST, "driver": "580.1"}
    assert "a CUDA context costs 38.8 MB" in caplog.text
    assert kept_context_cost(file) == COST
    loaded.write_text("590.1\n")
    assert kept_context_cost(file) is None


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"bytes": "x", "driver": ""}', '{"bytes": 42949672960, "driver": ""}']
)
def test_what_makes_no_sense_was_not_measured(tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_cost, "_LOADED", tmp_path / "none")
    (tmp_path / CONTEXT).write_text(content)
    assert kept_context_cost(tmp_path / CONTEXT) is None


def test_a_disk_that_does_not_take_it_changes_nothing(uuid: str, tmp_path: Path) -> None:
    assert new_context_cost(uuid, tmp_path / "none" / CONTEXT) == COST


def test_while_tenants_are_there_the_charge_stays_as_it_was(place: Place, uuid: str) -> None:
    told = attach(place.quota(uuid_of=lambda _: uuid), "a", 30)
    assert place.peer(told).started == 0
    quota = place.quota(context_bytes="auto", uuid_of=lambda _: uuid)
    quota.maintain()
    assert place.peer(told).started == 0, "its part was asked for when contexts cost nothing"
    quota.resize(holder("a"), 25 * MIB)
    assert quota.status(CARD.id)["context_bytes"] == 0
    quota.release_all_but(set())
    attach(quota, "b", 100)
    assert quota.status(CARD.id)["context_bytes"] == COST
    with pytest.raises(Invalid, match=r"^memory: .*charged for"):
        quota.resize(holder("b"), COST)


@pytest.mark.parametrize(
    ("said", "why"), [("", "''"), ("hm", "'hm'"), ("[5]", "output"), ('{"bytes": null}', "output")]
)
def test_a_program_that_says_something_else_says_nothing(monkeypatch: pytest.MonkeyPatch, said: str, why: str) -> None:
    monkeypatch.setattr(context_cost, "_PROGRAM", (sys.executable, "-c", f"print({said!r})"))
    with pytest.raises(NotReady, match=why):
        context_cost.context_cost("GPU-1")
    monkeypatch.setattr(context_cost, "_PROGRAM", ("/none",))
    with pytest.raises(NotReady, match="No such file"):
        context_cost.context_cost("GPU-1")


def test_what_cannot_be_measured_is_not_charged_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    manager = CardManager(Card("GPU-1"), CardSharingSettings(folder=tmp_path / "run"))
    assert manager.context_bytes() == manager.context_bytes() == 0
    (record,) = caplog.records
    assert "GPU-1: CUDA contexts are not charged to memory quotas: context_bytes: " in record.getMessage()
    assert "set it in the sharing settings" in record.getMessage()
    assert not (manager.folder / CONTEXT).exists()  # the next service tries again


def test_a_card_that_is_none_of_nvidias_is_not_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert CardManager(Card("sim-0"), CardSharingSettings(folder=tmp_path / "run")).context_bytes() == 0
    assert caplog.records == []


def test_one_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_cost, "_PROGRAM", (sys.executable, "-c", "import time; time.sleep(60)"))
    monkeypatch.setattr(context_cost, "WITHIN_S", 0.2)
    with pytest.raises(NotReady, match=r"within 0\.2 s"):
        context_cost.context_cost("GPU-1")


@dataclass
class Reading:
    """A card as NVML shows it: used bytes by turns, without and with a context; processes, if it tells."""

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
def test_by_the_whole_card_where_processes_are_not_told() -> None:
    grown = [MIB * one for one in (100, 620, 120, 622, 120, 621, 120)]
    assert context_cost.measure(Reading(grown)) == 502 * MIB  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize(
    "used",
    [
        (100, 600, 100, 1200, 700, 1200, 700),  # somebody came meanwhile
        (100, 2000, 1900, 3800, 3700, 5600, 5500),  # and went on to load
        (100,) * 7,
        (0, 9000, 0, 9000, 0, 9000, 0),
    ],
)
def test_what_others_do_meanwhile_is_not_taken_for_its_cost(used: tuple[int, ...]) -> None:
    with pytest.raises(context_cost.DriverError, match="others use it at the same time"):
        context_cost.measure(Reading([MIB * one for one in used]))  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_driver")
def test_by_the_process_itself_where_its_number_can_only_be_its_own() -> None:
    me = os.getpid()
    assert context_cost.measure(Reading([0], [{}, {me: LEAST_BYTES}])) == LEAST_BYTES  # type: ignore[arg-type]
    used = [0, MOST_BYTES, 0, MOST_BYTES, 0, MOST_BYTES, 0]
    taken = Reading(used, [{me: 500 * MIB}])  # another one's, of the node outside
    assert context_cost.measure(taken) == MOST_BYTES  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "code", "said"), [([], 2, "usage"), (["GPU-1", "GPU-2"], 2, "usage"), (["GPU-1"], 1, "")]
)
def test_as_a_program(words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert context_cost.main(words) == code
    assert said in capsys.readouterr().err != ""
