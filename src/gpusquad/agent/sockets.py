"""The unix sockets of a process, and which of them are connected to each other."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path

_LISTENING = 0x10000
_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST_ALL = 0x301
_END = (2, 3)
_PEER = 2
_SHOW_PEER = 4
_HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
_ANSWER_BYTES = 16
_PATIENCE_S = 1.0


@dataclass(slots=True)
class SocketEnds:
    """Unix sockets of a network namespace, by inode. Those without a name have an empty one."""

    names: dict[str, str] = field(default_factory=dict)
    listening: set[str] = field(default_factory=set)


def read_unix(proc: Path, pid: int) -> SocketEnds:
    """In the network namespace of the process."""
    ends = SocketEnds()
    try:
        lines = (proc / str(pid) / "net" / "unix").read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    except OSError:
        return ends
    for line in lines:
        words = line.split(maxsplit=7)
        if len(words) < 7:
            continue
        ends.names[words[6]] = words[7] if len(words) > 7 else ""
        if int(words[3], 16) & _LISTENING:
            ends.listening.add(words[6])
    return ends


def read_peers(proc: Path, pid: int) -> dict[str, str]:
    """Unix socket to the one it is connected to. Empty: the process is in another network namespace, or the kernel does
    not tell."""
    try:
        if os.readlink(proc / str(pid) / "ns" / "net") != os.readlink(proc / "self" / "ns" / "net"):
            return {}
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _SOCK_DIAG) as asked:
            asked.settimeout(_PATIENCE_S)
            request = struct.pack("=BBHIII2I", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, _SHOW_PEER, 0, 0)
            asked.send(_HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _REQUEST_ALL, 1, 0) + request)
            return _answers(asked)
    except OSError:
        return {}


def _answers(asked: socket.socket) -> dict[str, str]:
    peers: dict[str, str] = {}
    while True:
        data, start = asked.recv(2**16), 0
        while start + _HEADER.size <= len(data):
            size, kind, *_ = _HEADER.unpack_from(data, start)
            if kind in _END or size < _HEADER.size:
                return peers
            _take(data[start + _HEADER.size : start + size], peers)
            start += (size + 3) & ~3


def _take(answer: bytes, peers: dict[str, str]) -> None:
    """Family, type and state, the inode, a cookie; then attributes."""
    inode = struct.unpack_from("=I", answer, 4)[0]
    start = _ANSWER_BYTES
    while start + _ATTRIBUTE.size <= len(answer):
        size, kind = _ATTRIBUTE.unpack_from(answer, start)
        if kind == _PEER:
            peers[str(inode)] = str(struct.unpack_from("=I", answer, start + _ATTRIBUTE.size)[0])
        if size < _ATTRIBUTE.size:
            return
        start += (size + 3) & ~3
