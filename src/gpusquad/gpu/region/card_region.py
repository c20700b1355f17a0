"""The shared memory of a card as the daemon uses it: files in a folder, each with one writer and many readers.

Only the daemon writes ``FOLDER/decisions``, and only the processes of a client write ``FOLDER/tenants/<slot>``. Other
user ids can read both and write neither, and so can a container that mounts them read-only. Processes of one user id
outside containers are not separated: they can write each other's files, as they can each other's memory.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpusquad.gpu.region.layout import (
    FREE,
    LEND,
    LIVE,
    MAGIC,
    PROCESSES,
    SERVED,
    SLOTS,
    VERSION,
    ClientLayout,
    DecisionsLayout,
    GrantLayout,
    KernelLayout,
    ProcessLayout,
    ServedLayout,
)
from gpusquad.gpu.region.pages import ClientPage, Grant
from gpusquad.model.errors import Invalid

_ALL_BYTES = ctypes.sizeof(ClientLayout)
_HEAD_BYTES = ClientLayout.kernel.offset
_SERVED_AT = ClientLayout.served.offset
"""``_HEAD_BYTES`` excludes the kernel table, which is most of the file."""

_LIBC = ctypes.CDLL(None)
_FUTEX = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAKE = 1
_ALL_WAITERS = 2**31 - 1
_FLOCK = "hh4xqqi4x"
"""``struct flock`` of 64-bit Linux: type, whence, start, length, pid."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a client has measured about one kernel of one shape."""

    identity: int
    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    count: int
    mean_us: float
    variance: float


class CardRegion:
    """The files of one card. Created, or taken over from an earlier daemon, whose clients then continue."""

    slots = SLOTS

    def __init__(
        self,
        folder: Path,
        *,
        groups: int = 0,
        sms_per_group: int = 0,
        fail_open_ms: int = 0,
        context_bytes: int = 0,
        uuid: str = "",
        reclaim: Callable[[Path], int] | None = None,
    ) -> None:
        """``context_bytes`` is the cost of a process's first context here. ``reclaim`` is ``build.reclaimer()``.
        Without it, the bytes of dead processes are released when all processes of the client have ended, or by its
        other processes when they need them."""
        self.folder, self._context_bytes, self._reclaim = folder, context_bytes, reclaim
        (folder / "tenants").mkdir(parents=True, exist_ok=True)
        for one in (folder, folder / "tenants"):
            one.chmod(0o755)  # independent of the daemon's umask
        path = folder / "decisions"
        if not _is_ours(path, DecisionsLayout):
            fresh = DecisionsLayout(magic=MAGIC, version=VERSION, size=ctypes.sizeof(DecisionsLayout), slots=SLOTS)
            _replace_file(path, bytes(fresh))
        self._decisions = _map(path)
        self._decisions.fail_open_ms = fail_open_ms
        self._decisions.groups, self._decisions.sms_per_group = groups, sms_per_group
        self._decisions.card = uuid.encode()
        self._clients = {slot: _open(self.path(slot)) for slot in self._slots_in_use()}

    def _slots_in_use(self) -> list[int]:
        attached = (slot for slot in range(SLOTS) if self._decisions.grants[slot].state == LIVE)
        return [slot for slot in attached if _is_ours(self.path(slot), ClientLayout)]

    @property
    def attached(self) -> tuple[int, ...]:
        return tuple(sorted(self._clients))

    def path(self, slot: int) -> Path:
        """Return the client's file: ``$GPUSQUAD_TENANT``, or ``/run/gpusquad/tenant`` in a container."""
        return self.folder / "tenants" / str(slot)

    def attach(self, slot: int, *, uid: int | None = None, gid: int | None = None, quota_bytes: int = 0) -> None:
        """Give the slot to a client: an empty page that ``uid`` may write, and a grant that limits only memory."""
        if not 0 <= slot < SLOTS:
            raise Invalid("slot", f"is {slot}; a card has slots 0 to {SLOTS - 1}")
        fresh = ClientLayout(magic=MAGIC, version=VERSION, size=ctypes.sizeof(ClientLayout), slot=slot)
        _replace_file(self.path(slot), bytes(fresh), uid, gid)
        self._close_slot(slot)
        self._clients[slot] = _open(self.path(slot))
        self._decisions.grants[slot].slot_generation += 1
        self.write({slot: Grant(quota_bytes=quota_bytes)})

    def detach(self, slot: int) -> None:
        """Free the slot. Processes that are left continue without gate, mask and quota, so stop them first."""
        self._close_slot(slot)
        layout = self._decisions.grants[slot]
        self._decisions.grants[slot] = GrantLayout(slot_generation=layout.slot_generation)
        self.path(slot).unlink(missing_ok=True)
        self._notify()

    def _close_slot(self, slot: int) -> None:
        fd = self._clients.pop(slot, None)
        if fd is not None:
            os.close(fd)

    def close(self) -> None:
        """Close the files. They stay for the next daemon."""
        for slot in self.attached:
            self._close_slot(slot)

    def write(self, grants: Mapping[int, Grant]) -> None:
        for slot, grant in grants.items():
            layout = self._decisions.grants[slot]
            layout.squad = grant.squad & 0xFFFFFFFF
            layout.quota_bytes = grant.quota_bytes
            layout.mask = grant.mask
            layout.neighbours = grant.neighbours
            layout.restricted_us = grant.restricted_us
            layout.flags = LEND if grant.borrows else 0
            layout.context_bytes = self._context_bytes
            layout.loan_us, layout.loan_wait_max_us = grant.loan_us, grant.loan_wait_max_us
            layout.virtual_card_mask, layout.linger_us, layout.yield_to = (
                grant.virtual_card_mask,
                grant.linger_us,
                grant.yield_to,
            )
            layout.yield_point_us, layout.yield_max_ms = grant.yield_point_us, grant.yield_max_ms
            layout.priority_level = grant.priority_level
            layout.credit_us = grant.credit_us
            layout.state = LIVE
        self._notify()

    def _notify(self) -> None:
        self._decisions.epoch = (self._decisions.epoch + 1) & 0xFFFFFFFF
        _wake(ctypes.addressof(self._decisions) + DecisionsLayout.epoch.offset)

    def beat(self, now_ns: int) -> None:
        """Record the heartbeat. ``now_ns`` is CLOCK_MONOTONIC, which all processes of a machine share."""
        self._decisions.heartbeat_ns = now_ns

    def _read(self, slot: int, nbytes: int) -> ClientLayout:
        """Copy the file: a client may truncate it at any moment, and an access to a mapping is then fatal."""
        content = os.pread(self._clients[slot], nbytes, 0)
        return ClientLayout.from_buffer_copy(content.ljust(_ALL_BYTES, b"\0"))

    def page(self, slot: int) -> ClientPage:
        client = self._read(slot, _HEAD_BYTES)
        processes = [process for process in client.procs if process.pid]
        live = [process for process in processes if process.state == LIVE]
        return ClientPage(
            requested_us=sum(process.requested_us for process in processes),
            completed_us=sum(process.completed_us for process in processes),
            launches=sum(process.launches + process.copies + process.graphs for process in processes),
            iterations=sum(process.iterations for process in processes),
            in_flight=sum(process.in_flight for process in live),
            waiting=sum(process.waiting for process in live),
            used_bytes=client.used_bytes,
            peak_bytes=client.peak_bytes,
            mask_now=live[0].mask_now if live else 0,
            moves=sum(process.moves for process in processes),
            waited_ns=sum(process.waited_ns for process in processes),
            pids=tuple(process.pid for process in live),
            uses_collectives=any(process.uses_collectives for process in live),
        )

    def periods_us(self, slot: int) -> tuple[int, ...]:
        processes = self._read(slot, _HEAD_BYTES).procs
        return tuple(process.period_us for process in processes if process.state == LIVE and process.period_us)

    def kernels(self, slot: int) -> tuple[Kernel, ...]:
        """Return the rows of the kernel table, except those that a process is writing."""
        client, again = self._read(slot, _ALL_BYTES), self._read(slot, _ALL_BYTES)
        rows = zip(client.kernel, again.kernel, strict=True)
        whole = (row for row, later in rows if row.sequence % 2 == 0 and row.sequence == later.sequence)
        return tuple(_kernel(row) for row in whole if row.count)

    def served(self, slot: int, seen: int | None) -> tuple[int, tuple[int, ...]]:
        (count,) = struct.unpack("<Q", os.pread(self._clients[slot], 8, _SERVED_AT).ljust(8, b"\0"))
        if seen is None or count == seen:
            return count, ()
        content = os.pread(self._clients[slot], ctypes.sizeof(ServedLayout), _SERVED_AT)
        row = ServedLayout.from_buffer_copy(content.ljust(ctypes.sizeof(ServedLayout), b"\0")).us
        fresh = min(count - seen, SERVED) if count > seen else 0
        return count, tuple(us for at in range(count - fresh, count) if (us := row[at % SERVED]))

    def reclaim(self, slot: int) -> int:
        if not any(not _is_locked(self._clients[slot], index) for index in _live(self._read(slot, _HEAD_BYTES))):
            return 0
        if self._reclaim is not None:
            return max(0, self._reclaim(self.path(slot)))
        return _free_all(self.path(slot))


def _kernel(row: KernelLayout) -> Kernel:
    return Kernel(
        identity=row.identity,
        name=row.name.decode(errors="replace"),
        grid=(row.grid[0], row.grid[1], row.grid[2]),
        block=(row.block[0], row.block[1], row.block[2]),
        shared_bytes=row.shared,
        count=row.count,
        mean_us=row.mean_us,
        variance=row.var,
    )


def _live(client: ClientLayout) -> list[int]:
    return [index for index, process in enumerate(client.procs) if process.state == LIVE]


def _free_all(path: Path) -> int:
    """Free all processes, if none is left. Then the lock of the sums, which Python cannot take, is not needed."""
    fd = _open(path)  # a new descriptor: closing it releases the locks taken through it
    try:
        if not all(_lock(fd, index) for index in range(PROCESSES)):
            return 0
        client = ClientLayout.from_buffer_copy(os.pread(fd, _ALL_BYTES, 0))
        lost = sum(client.procs[index].used_bytes for index in _live(client))
        for process in client.procs:
            _free(process)
        client.used_bytes = client.lock = 0
        os.pwrite(fd, bytes(client)[:_HEAD_BYTES], 0)
        return lost
    finally:
        os.close(fd)


def _free(process: ProcessLayout) -> None:
    process.used_bytes = process.in_flight = process.waiting = 0
    process.state = FREE


def _is_ours(path: Path, layout: type[ctypes.Structure]) -> bool:
    try:
        head = path.read_bytes()[:12]
    except FileNotFoundError:
        return False
    size = ctypes.sizeof(layout)
    return head == struct.pack("<III", MAGIC, VERSION, size) and path.stat().st_size == size


def _replace_file(path: Path, content: bytes, uid: int | None = None, gid: int | None = None) -> None:
    """Write a new file under the same name. A process that has the old one mapped must not see it truncated."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        os.fchmod(fd, 0o644)
        os.write(fd, content)
        if (uid, gid) != (None, None):
            os.fchown(fd, -1 if uid is None else uid, -1 if gid is None else gid)
    finally:
        os.close(fd)
    os.replace(fresh, path)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def _map(path: Path) -> DecisionsLayout:
    fd = _open(path)
    try:
        return DecisionsLayout.from_buffer(mmap.mmap(fd, ctypes.sizeof(DecisionsLayout)))
    finally:
        os.close(fd)


def _is_locked(fd: int, index: int) -> bool:
    """Return whether a process holds the byte. The kernel releases it however the process dies."""
    request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, index, 1, 0)
    return struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_OFD_GETLK, request))[0] != fcntl.F_UNLCK


def _lock(fd: int, index: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, index, 1, 0))
    except BlockingIOError:
        return False
    return True


def _wake(address: int) -> None:
    number = _FUTEX.get(platform.machine())
    if number is None:
        raise Invalid("machine", f"is {platform.machine()}; clients can be woken on {' and '.join(_FUTEX)} only")
    _LIBC.syscall(
        ctypes.c_long(number),
        ctypes.c_void_p(address),
        ctypes.c_int(_FUTEX_WAKE),
        ctypes.c_int(_ALL_WAITERS),
        None,
        None,
        0,
    )
