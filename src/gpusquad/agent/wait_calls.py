"""The system calls in which threads wait, and the files that they wait for."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CallKind = Literal["file", "poll", "select", "epoll", "open", "message", "signal", "futex"]
"""file: the first argument is a descriptor. open: of a named pipe, since no other open takes long. message: to or from
another process by System V or POSIX queues, semaphores, connections, or asynchronous input and output."""
_BY_MACHINE: dict[str, dict[CallKind, tuple[int, ...]]] = {
    "x86_64": {
        "file": (0, 1, 16, 17, 18, 19, 20, 43, 44, 45, 46, 47, 72, 73, 275, 288, 295, 299, 307, 327),
        "poll": (7, 271), "select": (23, 270), "epoll": (232, 281, 441), "open": (2, 85, 257, 437),
        "message": (42, 65, 69, 70, 208, 220, 242, 243, 426), "signal": (34, 128, 130), "futex": (202,),
    },
    "aarch64": {
        "file": (25, 29, 32, 63, 64, 65, 66, 67, 68, 69, 76, 202, 206, 207, 211, 212, 242, 243, 269, 286),
        "poll": (73,), "select": (72,), "epoll": (22, 441), "open": (56, 437),
        "message": (4, 182, 183, 188, 189, 192, 193, 203, 426), "signal": (133, 137), "futex": (98,),
    },
}  # fmt: skip
_KINDS: dict[int, CallKind] = {
    number: kind for kind, numbers in _BY_MACHINE.get(os.uname().machine, {}).items() for number in numbers
}
_MOST_FILES = 4096
_FUTEX_PRIVATE = 128
_POLL = struct.Struct("=ihh")


@dataclass(frozen=True, slots=True)
class WaitCall:
    """The system call of a thread. ``kind`` None: it runs, or waits for nothing that another process gives."""

    kind: CallKind | None
    arguments: tuple[int, ...] = ()
    number: int = -1

    @property
    def is_shared_futex(self) -> bool:
        return self.kind == "futex" and not self.arguments[1] & _FUTEX_PRIVATE


def read_call(thread: Path) -> WaitCall:
    """Of a process (its main thread) or of one of its threads. OSError: it may not be read, or is gone."""
    with open(thread / "syscall", encoding="ascii", errors="replace") as file:
        words = file.read(4096).split()
    if len(words) < 7:
        return WaitCall(None)  # running, or blocked outside of a call
    number = int(words[0])
    return WaitCall(_KINDS.get(number), tuple(int(word, 16) for word in words[1:7]), number)


def awaited_files(process: Path, call: WaitCall) -> list[int]:
    """Descriptors that the call waits for. OSError: its arguments may not be read."""
    if call.kind in ("file", "epoll"):
        return [call.arguments[0] & 0x7FFFFFFF]
    if call.kind == "poll":
        data = _read(process, call.arguments[0], min(call.arguments[1], _MOST_FILES) * _POLL.size)
        return [file for file, _, _ in _POLL.iter_unpack(data[: len(data) // _POLL.size * _POLL.size]) if file >= 0]
    if call.kind == "select":
        count = min(call.arguments[0], _MOST_FILES)
        sets = [_read(process, address, (count + 7) // 8) for address in call.arguments[1:3] if address]
        return [file for file in range(count) if any(bits[file // 8] >> file % 8 & 1 for bits in sets)]
    return []


def _read(process: Path, address: int, size: int) -> bytes:
    if not size:
        return b""
    with open(process / "mem", "rb", buffering=0) as memory:
        memory.seek(address)
        data = memory.read(size)
    if len(data) < size:
        raise OSError("memory is not readable")
    return data
