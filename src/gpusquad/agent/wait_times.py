"""How long a thread that waits in the kernel is going to wait at most, from its system call."""

from __future__ import annotations

import math
import os
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpusquad.agent.wait_calls import read_call

_NS_PER_S = 1_000_000_000
_MS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class _Call:
    """Where a system call has its timeout: the number of the argument, and what that is."""

    argument: int
    form: Literal["timespec", "timeval", "milliseconds", "clock", "futex"]


_SLEEP, _CLOCK_SLEEP, _FUTEX = _Call(0, "timespec"), _Call(2, "clock"), _Call(3, "futex")
_PPOLL, _PSELECT, _EPOLL = _Call(2, "timespec"), _Call(4, "timespec"), _Call(3, "milliseconds")
_CALLS_BY_MACHINE = {
    "x86_64": {
        35: _SLEEP, 230: _CLOCK_SLEEP, 202: _FUTEX, 7: _Call(2, "milliseconds"), 271: _PPOLL,
        23: _Call(4, "timeval"), 270: _PSELECT, 232: _EPOLL, 281: _EPOLL, 441: _Call(3, "timespec"),
    },
    "aarch64": {101: _SLEEP, 115: _CLOCK_SLEEP, 98: _FUTEX, 73: _PPOLL, 72: _PSELECT, 22: _EPOLL},
}  # fmt: skip
_CALLS = _CALLS_BY_MACHINE.get(os.uname().machine, {})
_FUTEX_BITSET, _FUTEX_COMMAND, _FUTEX_REALTIME = 9, 0x7F, 256


def time_left_s(process: Path) -> float | None:
    """Of the main thread. Infinite: it waits without a limit. None: it may not be read, or the call is unknown."""
    try:
        made = read_call(process)
        call = _CALLS.get(made.number)
        return None if call is None else _left_s(process, call, made.arguments)
    except (OSError, ValueError, IndexError, OverflowError, struct.error):
        return None


def _left_s(process: Path, call: _Call, arguments: Sequence[int]) -> float:
    value = arguments[call.argument]
    if call.form == "milliseconds":
        milliseconds = struct.unpack("=i", struct.pack("=I", value & 0xFFFFFFFF))[0]
        return math.inf if milliseconds < 0 else milliseconds / _MS_PER_S
    if value == 0:
        return math.inf
    seconds, fraction = _read_pair(process, value)
    asked_s = seconds + fraction / (1_000_000 if call.form == "timeval" else _NS_PER_S)
    clock = _absolute_clock(call, arguments)
    return asked_s if clock is None else asked_s - time.clock_gettime(clock)


def _absolute_clock(call: _Call, arguments: Sequence[int]) -> int | None:
    """The clock of a wait until an instant. None: the wait is for a duration."""
    if call.form == "clock" and arguments[1] & 1:
        return arguments[0]
    if call.form == "futex" and arguments[1] & _FUTEX_COMMAND == _FUTEX_BITSET:
        return time.CLOCK_REALTIME if arguments[1] & _FUTEX_REALTIME else time.CLOCK_MONOTONIC
    return None


def _read_pair(process: Path, address: int) -> tuple[int, int]:
    with open(process / "mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return struct.unpack("=qq", memory.read(16))
