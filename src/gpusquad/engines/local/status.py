"""Status of an attempt: a file of fixed size, written in place, so that a full disk cannot lose the outcome.

Two slots are written alternately, each one line of JSON padded with spaces. A writer that is killed in the middle of a
slot leaves the other one intact; a checksum tells which.

A status is a dict:
- ``phase``: claimed (nothing has run) | released (tasks passed the barrier) | running | ending | ended
- ``tasks``: [[pid, start ticks], ...] by rank, once they exist, and their ``boot_id``
- ``groups``: the control groups that hold them, as `cgroups.TaskCgroups` writes them
- ``ports``: of the gang; ``grace_s``: from its launch; ``limits_note``: what could not be done as requested
- ``end``: ``{how, cause, first, never_started, at_us, usage}`` as `core.ports.AttemptEnded`;
  provisional until the phase is ended
- ``logs``: [[bytes written by the task, bytes of them not kept], ...] by rank, when ended
"""

from __future__ import annotations

import json
import os
import zlib

from gpusquad.engines.local import atomic_file
from gpusquad.engines.local.run_folder import RunFolder

_SLOT_BYTES = 32 * 1024
_TASK_BYTES = 128
"""Space for one task: its process, its port, its logs."""
_KEPT_CHARACTERS = (1000, 50)
"""Length of causes and notes if they do not all fit."""
_BODY = b', "status": '


class StatusFile:
    """The only writer of a status."""

    def __init__(self, handle: int, slot_bytes: int, sequence: int) -> None:
        self._handle = handle
        self._slot_bytes = slot_bytes
        self._sequence = sequence

    @classmethod
    def make(cls, folder: RunFolder, tasks: int) -> StatusFile:
        """Create the file with all the space it will ever need."""
        slot_bytes = max(_SLOT_BYTES, -(-tasks * _TASK_BYTES // 4096) * 4096)
        blank = (b" " * (slot_bytes - 1) + b"\n") * 2
        atomic_file.place(folder.status, blank)
        return cls(os.open(folder.status, os.O_RDWR | os.O_CLOEXEC), slot_bytes, 0)

    @classmethod
    def take_over(cls, folder: RunFolder) -> StatusFile:
        """Continue the file of a dead supervisor."""
        handle = os.open(folder.status, os.O_RDWR | os.O_CLOEXEC)
        size_bytes = os.fstat(handle).st_size
        newest = _newest(_slots(os.pread(handle, size_bytes, 0)))
        return cls(handle, size_bytes // 2, newest[0] if newest else 0)

    def write(self, status: dict) -> None:
        """Overwrite the older slot."""
        self._sequence += 1
        data = self._line(status)
        atomic_file.write_all(self._handle, data, self._slot_bytes * (self._sequence % 2))

    def sync(self) -> None:
        """Flush to disk, where that is possible."""
        try:
            os.fdatasync(self._handle)
        except OSError:
            return  # what is written can be read; only a power failure could still lose it

    def close(self) -> None:
        os.close(self._handle)

    def _line(self, status: dict) -> bytes:
        data = _encode(self._sequence, status)
        for kept in _KEPT_CHARACTERS:
            if len(data) >= self._slot_bytes:
                data = _encode(self._sequence, _shortened(status, kept))
        return data[: self._slot_bytes - 1].ljust(self._slot_bytes - 1) + b"\n"


def read(folder: RunFolder) -> dict | None:
    """The newest complete status; None: there is none."""
    newest = _newest(_slots(atomic_file.read(folder.status) or b""))
    return None if newest is None else newest[1]


def _encode(sequence: int, status: dict) -> bytes:
    body = json.dumps(status).encode()
    return b'{"sequence": %d, "crc32": %d%s%s}' % (sequence, _checksum(sequence, body), _BODY, body)


def _checksum(sequence: int, body: bytes) -> int:
    """Includes the sequence number: half a slot can have a new number before an old status."""
    return zlib.crc32(b"%d" % sequence, zlib.crc32(body))


def _slots(data: bytes) -> list[bytes]:
    half = len(data) // 2
    return [data[:half], data[half:]]


def _newest(slots: list[bytes]) -> tuple[int, dict] | None:
    whole = [slot for slot in map(_decode, slots) if slot is not None]
    return max(whole, key=lambda slot: slot[0], default=None)


def _decode(slot: bytes) -> tuple[int, dict] | None:
    head, _, rest = slot.strip().partition(_BODY)
    try:
        about, body = json.loads(head + b"}"), rest[:-1]
        sequence = int(about["sequence"])
        return (sequence, json.loads(body)) if _checksum(sequence, body) == about["crc32"] else None
    except (ValueError, KeyError, TypeError):
        return None


def _shortened(status: dict, kept: int) -> dict:
    """Without what may be long and is not needed to continue."""
    short = {key: value for key, value in status.items() if key != "logs"}
    short["limits_note"] = str(status.get("limits_note", ""))[:kept]
    if status.get("end"):
        end = short["end"] = {**status["end"], "cause": status["end"]["cause"][:kept]}
        if end["first"]:
            end["first"] = {**end["first"], "cause": end["first"]["cause"][:kept]}
    return short
