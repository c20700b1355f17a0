"""Tests of stopping tasks in an MPS pool, with the real daemon, shim and programs and a stand-in driver."""

from __future__ import annotations

import shlex
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpusquad.core.ports import TaskLaunch
from gpusquad.engines.local import attempt_watcher
from gpusquad.engines.local.engine import LocalEngine
from gpusquad.model.job import Share
from tests.engines.harness import Bench, TaskPipe, eventually
from tests.gpu.attach.conftest import CARD, MIB, Place, attach, clients, until
from tests.gpu.attach.conftest import built as built
from tests.gpu.attach.conftest import driver as driver
from tests.gpu.attach.conftest import library as library
from tests.gpu.attach.conftest import mps as mps
from tests.gpu.attach.conftest import place as place
from tests.gpu.attach.fake_mps import FakeMps
from tests.gpu.standin.client import read_log

ROOT = Path(__file__).parents[3]
PROGRAM = """
import mmap, os, signal, struct, sys
from tests.gpu.standin.client import Cuda

cuda = Cuda(kernels="add:0:2000")
number, count = cuda.number(0), 0
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(handle, 8)
launched = mmap.mmap(handle, 8)

def launch():
    global count
    cuda.launch("add", number)
    count += 1
    struct.pack_into("Q", launched, 0, count)

def save():
    launch()
    cuda.sync()
    with open(sys.argv[2], "w") as news:
        print("saved" if cuda.read(number) == count else "lost", file=news)

told = []
if sys.argv[3] == "saves":
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
while not told:
    launch()
save()
"""
QUEUED = 64
"""Kernels of 2 ms that the program has queued at every moment."""


@pytest.fixture
def bench(home: Path, tmp_path: Path, place: Place, mps: FakeMps) -> Iterator[Bench]:
    quota = place.quota(has_mps=True)
    created = Bench(lambda report: LocalEngine(home, report, sharing=quota, cards=[CARD]), tmp_path)
    neighbour = place.player(attach(quota, "neighbour"))  # without a neighbour, work on the card is not tracked
    neighbour.stage()
    neighbour.send("stage.play(given)", [["kernels", 10**6, "legacy", 0, "add", 200]])
    until(lambda: clients(quota)["neighbour/0"]["attained_us"] > 0, "the neighbour does not run")
    yield created
    created.close()


def start(bench: Bench, place: Place, on_sigterm: str) -> TaskPipe:
    """Start one task that always has work on the card."""
    pipe, program = bench.pipe(), bench.folder / "program.py"
    program.write_text(PROGRAM)
    env = place.environment | {
        "STANDIN_LOG": str(bench.folder / "log"), "STANDIN_QUEUE": str(QUEUED), "PYTHONPATH": str(ROOT)
    }  # fmt: skip
    arguments = [sys.executable, str(program), str(bench.folder / "launched"), str(pipe.path), on_sigterm]
    task = TaskLaunch(
        0, "worker", 0, "node", (CARD.id,), ("/bin/sh", "-c", f"exec {shlex.join(arguments)}"),
        share=Share(memory_bytes=100 * MIB), env=env,
    )  # fmt: skip
    bench.launch("job", tasks=(task,))
    bench.reports.started("job")
    eventually(lambda: (bench.folder / "launched").exists() and launched(bench) > 2 * QUEUED)
    return pipe


def launched(bench: Bench) -> int:
    content = (bench.folder / "launched").read_bytes()
    return struct.unpack("Q", content)[0] if len(content) == 8 else 0


def completed(bench: Bench) -> int:
    return sum(line.name == "add" for line in read_log(bench.folder / "log"))


def test_no_kernel_is_cut_off_when_sigterm_kills_the_program(
    bench: Bench, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_watcher, "_PAUSE_S", 30.0)  # enough for a busy machine
    start(bench, place, "dies")
    bench.engine.stop("job", 0, "enough", 600.0)
    assert bench.reports.ended("job").how == "stopped"
    assert completed(bench) >= launched(bench) > 2 * QUEUED


def test_kernel_is_cut_off_without_the_pause(bench: Bench, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the pause is the cause in the previous test."""
    monkeypatch.setattr(attempt_watcher, "_PAUSE_S", 0.0)
    start(bench, place, "dies")
    bench.engine.stop("job", 0, "enough", 600.0)
    assert bench.reports.ended("job").how == "stopped"
    assert completed(bench) < launched(bench)


def test_program_can_use_the_card_to_save_its_work(bench: Bench, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_watcher, "_PAUSE_S", 30.0)
    pipe = start(bench, place, "saves")
    bench.engine.stop("job", 0, "enough", 600.0)
    assert pipe.next() == "saved"
    assert bench.reports.ended("job").how == "stopped"
