"""The TCP ports of a run: whether it listens, who uses them, and whom it is connected to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LISTEN, _ESTABLISHED = "0A", "01"
_MAX_FILES = 4096
_MAX_ENVIRONMENT = 2**20
_MEETING_PORTS = (b"MASTER_PORT", b"PET_MASTER_PORT")
_NO_INODE = "0"
"""Of a connection that is already closed."""


@dataclass(frozen=True, slots=True)
class _Socket:
    inode: str
    state: str
    local: str
    remote: str


class RunPorts:
    """Reads the sockets of the ``workers`` of a run, in the network namespace of the first of them. ``tasks``: the task
    of each process of the run."""

    def __init__(self, proc: Path, workers: Sequence[int], tasks: Mapping[int, int]) -> None:
        sockets = {pid: _socket_inodes(proc, pid) for pid in {*workers, *tasks}}
        mine = {inode for pid in workers for inode in sockets[pid]}
        table = _tcp(proc, workers[0]) if mine else []
        self.inodes = frozenset(one.inode for one in table)
        of_run = {inode for pid in tasks for inode in sockets[pid]}
        ends = {(one.local, one.remote) for one in table if one.inode in of_run}
        listening = {one.inode: _port(one.local) for one in table if one.state == _LISTEN and one.inode in mine}
        ports = set(listening.values())
        strangers = [one for one in table if one.state != _LISTEN and (one.remote, one.local) not in ends]
        self.listens = bool(ports)
        self.talks = any(one.state == _ESTABLISHED and one.inode in mine for one in strangers)
        """Whether it is connected to a process that is not of the run."""
        self.calls = any(
            one.state == _ESTABLISHED and one.inode in mine and _port(one.local) not in ports for one in strangers
        )
        """The same, by a connection that it opened itself. One that is refused is none."""
        self.is_visited = any(_port(one.local) in ports and _is_known(one, of_run) for one in strangers)
        """Whether a process that is not of the run is connected to one of its ports, or was a moment ago."""
        own, gang = _ports_for_peers(table, sockets, tasks)
        own |= _rendezvous(proc, workers) if ports else set()
        spare = _spare_ports() if gang else range(0)
        self.for_requests = frozenset(
            inode for inode, port in listening.items() if port not in own and int(port, 16) not in spare
        )
        """Listening sockets that are not for other tasks. Libraries of a gang listen at ports that the kernel chose,
        and not all of these get a connection."""


def _ports_for_peers(
    table: Iterable[_Socket], sockets: Mapping[int, set[str]], tasks: Mapping[int, int]
) -> tuple[set[str], bool]:
    """Ports by which processes of the run are connected to each other, and whether tasks are."""
    holders: dict[str, set[int]] = {}
    for pid in tasks:
        for inode in sockets[pid]:
            holders.setdefault(inode, set()).add(pid)
    by_ends = {(one.local, one.remote): holders[one.inode] for one in table if one.inode in holders}
    ports, between_tasks = set[str](), False
    for (local, remote), pids in by_ends.items():
        others = by_ends.get((remote, local), set())
        if others and pids.isdisjoint(others):
            ports.add(_port(local))
            between_tasks |= {tasks[pid] for pid in pids}.isdisjoint(tasks[pid] for pid in others)
    return ports, between_tasks


def _rendezvous(proc: Path, pids: Iterable[int]) -> set[str]:
    """Ports at which the ranks of a training meet."""
    found: set[str] = set()
    for pid in pids:
        try:
            with open(proc / str(pid) / "environ", "rb") as file:
                words = file.read(_MAX_ENVIRONMENT).split(b"\0")
        except OSError:
            continue
        values = [value for word in words for name, _, value in [word.partition(b"=")] if name in _MEETING_PORTS]
        found |= {f"{int(value):04X}" for value in values if value.isdigit()}
    return found


def _spare_ports() -> range:
    """Those that the kernel chooses from for programs that ask for any."""
    try:
        first, last = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()
        return range(int(first), int(last) + 1)
    except (OSError, ValueError):
        return range(32768, 61000)


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
