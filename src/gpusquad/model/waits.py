"""What a quiet run waits for, as an agent found it."""

from __future__ import annotations

from typing import Literal, get_args

WaitKind = Literal[
    "stopped",
    "service",
    "terminal",
    "disk",
    "running",
    "network",
    "outside",
    "stuck",
    "sleeping",
    "unknown",
]
"""stopped: by a signal. service: it listens for requests. terminal: it is at one. outside: it waits for
somebody outside of the run, by a named pipe, a socket or a lock of a file. stuck: it waits for a thread, a process or a
pipe of its own run, or sleeps for ever. unknown: the kernel does not tell.

Processes are explained by the first of these that one of them has: one that waits on purpose or for somebody else
explains those that wait for it, and so does one that is stuck. Only between the tasks of a gang, sleeping explains
stuck."""
WAIT_KINDS: tuple[WaitKind, ...] = get_args(WaitKind)
