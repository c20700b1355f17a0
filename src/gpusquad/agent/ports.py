"""The TCP ports of a run: whether it listens, who uses them, and whom it is connected to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_LISTEN, _ESTABLISHED = "0A", "01"
_MAX_FILES = 4096
_NO_INODE = "0"
"""Of a connection that is already closed."""


@dataclass(frozen=True, slots=True)
class _Socket:
    inode: str
    state: str
    local: str
    remote: str


class RunPorts:
    """Reads the sockets of the ``workers`` of a run, in the network namespace of the first of them."""

    def __init__(self, proc: Path, workers: Sequence[int], run: Iterable[int]) -> None:
        mine = {inode for pid in workers for inode in _socket_inodes(proc, pid)}
        table = _tcp(proc, workers[0]) if mine else []
        self.inodes = frozenset(one.inode for one in table)
        of_run = {inode for pid in run for inode in _socket_inodes(proc, pid)} if self.inodes & mine else set[str]()
        ends = {(one.local, one.remote) for one in table if one.inode in of_run}
        ports = {_port(one.local) for one in table if one.state == _LISTEN and one.inode in mine}
        strangers = [one for one in table if one.state != _LISTEN and (one.remote, one.local) not in ends]
        self.listens = bool(ports)
        self.talks = any(one.state == _ESTABLISHED and one.inode in mine for one in strangers)
        """Whether it is connected to a process that is not of the run."""
        self.is_visited = any(_port(one.local) in ports and _is_known(one, of_run) for one in strangers)
        """Whether a process that is not of the run is connected to one of its ports, or was a moment ago."""


def _is_known(one: _Socket, of_run: set[str]) -> bool:
    """Of a closed connection it is known only that it came from another machine."""
    if one.inode == _NO_INODE:
        return _host(one.local) != _host(one.remote)
    return one.inode in of_run


def _socket_inodes(proc: Path, pid: int) -> set[str]:
    folder = proc / str(pid) / "fd"
    found: set[str] = set()
    try:
        names = os.listdir(folder)
    except OSError:
        return found
    for name in names[:_MAX_FILES]:
        try:
            target = os.readlink(folder / name)
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def _tcp(proc: Path, pid: int) -> list[_Socket]:
    found: list[_Socket] = []
    for table in ("tcp", "tcp6"):
        try:
            with open(proc / str(pid) / "net" / table, encoding="ascii", errors="replace") as file:
                lines = file.readlines()[1:]
        except OSError:
            continue
        words = (line.split() for line in lines)
        found += [_Socket(word[9], word[3], _end(word[1]), _end(word[2])) for word in words if len(word) > 9]
    return found


def _end(address: str) -> str:
    """An end of a connection. The same IPv4 address is written differently in the table of IPv6."""
    host, _, port = address.partition(":")
    return f"{host[-8:]}:{port}" if host[:24] == "0000000000000000FFFF0000" else f"{host}:{port}"


def _port(end: str) -> str:
    return end.rpartition(":")[2]


def _host(end: str) -> str:
    return end.rpartition(":")[0]
