"""Start players (``player.py``) and read the stand-in's log."""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusquad.gpu.region.layout import LIVE, ClientLayout, ProcessLayout
from tests.gpu.shim.clients import Card

_PLAYER = Path(__file__).with_name("player.py")
_ROOT = Path(__file__).parents[3]
SMS, GROUPS, SMS_PER_GROUP = 64, 8, 8
BLOCKS = 1024
"""More than fit on a card at once, so that every SM runs some."""
BLOCKS_PER_SM = 2
"""Blocks of 1024 threads per SM: all blocks of a cooperative launch must be resident at once."""

_TIMEOUT_S = 30
"""Only a failing test waits this long."""

Step = list[Any]

ALL_KINDS: list[Step] = [
    ["stream", "blocking", True],
    ["stream", "other", True],
    ["stream", "independent", False],
    ["stream", "side", False],
]
"""Steps that create streams of all kinds."""
FORK: list[Step] = [["record", "forked", "independent"], ["wait", "side", "forked"]]
JOIN: list[Step] = [["record", "joined", "side"], ["wait", "independent", "joined"]]


class Player:
    """A real process that plays steps on a stage."""

    def __init__(self, environment: dict[str, str]) -> None:
        python = {"PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}", "STANDIN_SMS": str(SMS)}
        python["PYTHONWARNINGS"] = "ignore::DeprecationWarning"  # since 3.12 a fork in a process with threads warns
        self.process = subprocess.Popen(
            [sys.executable, str(_PLAYER)],
            env=environment | python,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def send(self, do: str, given: Any = None, keep: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, "given": given, "keep": keep}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], _TIMEOUT_S)
        assert ready, "the process does not answer: it is held or hangs"
        line = self.process.stdout.readline()
        assert line, self._exit_report()
        answer = json.loads(line)
        assert "value" in answer, answer
        return answer["value"]

    def _exit_report(self) -> str:
        _, words = self.process.communicate(timeout=_TIMEOUT_S)
        return f"the process ended with {self.process.returncode}: {words}"

    def __call__(self, do: str, given: Any = None, keep: str = "") -> Any:
        self.send(do, given, keep)
        return self.answer()

    def play(self, steps: list[Step], cells: int = 8) -> dict[str, Any]:
        return self(f"played(given, {cells})", steps)

    def stage(self) -> None:
        """Create a stage that later steps use."""
        self("Stage()", keep="stage")

    def on_stage(self, steps: list[Step]) -> None:
        self("stage.play(given)", steps)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> str:
        _, words = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, words
        return words


def player(card: Card, slot: int = 0, **more: str) -> Player:
    """A process of that client."""
    made = Player(card.of(slot, **more))
    card.peers.append(made)  # pyright: ignore[reportArgumentType]  # ended with the others
    return made


def bare_player(card: Card, **more: str) -> Player:
    """A process without the shim."""
    bare = {key: value for key, value in card.environment.items() if key != "LD_PRELOAD"}
    return Player(bare | {"STANDIN_CARD": card.environment["STANDIN_CARD"] + "-bare"} | more)


@dataclass(frozen=True)
class LoggedWork:
    """One line of the stand-in's log."""

    process: int
    stream: str
    kind: str
    name: str
    allowed: int
    used: int
    started_us: float
    ended_us: float


def log(path: Path) -> list[LoggedWork]:
    found = []
    for line in path.read_text().splitlines():
        part = line.split("\t")
        found.append(
            LoggedWork(
                int(part[1]),
                part[2],
                part[3],
                part[4],
                int(part[5], 16),
                int(part[6], 16),
                float(part[9]),
                float(part[10]),
            )
        )
    return found


def sms_of(mask: int) -> int:
    """The SMs of the groups, as a mask of SMs."""
    return sum(0xFF << (SMS_PER_GROUP * group) for group in range(GROUPS) if mask >> group & 1)


def is_whole(sms: set[int]) -> bool:
    """Whether these are nearly all SMs: a card may have SMs outside all groups."""
    return len(sms) >= GROUPS * SMS_PER_GROUP


def count_of(mask: int) -> int:
    """Number of SMs in the groups."""
    return SMS_PER_GROUP * mask.bit_count()


def client_page(card: Card, slot: int = 0) -> ClientLayout:
    """A live mapping of the client's file."""
    fd = os.open(card.region.path(slot), os.O_RDWR)
    try:
        return ClientLayout.from_buffer(mmap.mmap(fd, ctypes.sizeof(ClientLayout)))
    finally:
        os.close(fd)


def process_page(card: Card, slot: int = 0, index: int = 0) -> ProcessLayout:
    return client_page(card, slot).procs[index]


def fake_client(card: Card, slot: int) -> ProcessLayout:
    """Simulate a process of that client: its page, and the lock that marks it as alive."""
    if slot not in card.fake_locks:
        fd = card.fake_locks[slot] = os.open(card.region.path(slot), os.O_RDWR | os.O_CLOEXEC)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hh4xqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
    page = process_page(card, slot)
    page.state = LIVE
    return page


def make_busy(card: Card, slot: int, in_flight: int) -> None:
    """Simulate a process of that client with this number of batches in flight."""
    fake_client(card, slot).in_flight = in_flight


def kill_fake_client(card: Card, slot: int) -> None:
    """Simulate the kill of that process: its last report stays, its lock does not."""
    os.close(card.fake_locks.pop(slot))


def until(condition: Callable[[], bool], what: str = "what was awaited") -> None:
    give_up = time.monotonic() + _TIMEOUT_S
    while not condition():
        assert time.monotonic() < give_up, f"{what} did not come"
        os.sched_yield()
