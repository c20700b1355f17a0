"""The shared memory of a card, from the daemon's side: files in a folder, written by one and read by many.

``FOLDER/decisions`` is written by the daemon alone; ``FOLDER/clients/<slot>`` by the processes of that tenant. Another
user id can read both and write neither, nor can a container that has them mounted so. Between processes of one user id
outside containers nothing of this holds: they may write to each other's files, as to each other's memory.
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
"""Without the kernels, which fill most of the file."""

_LIBC = ctypes.CDLL(None)
_FUTEX = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAKE = 1
_EVERYBODY = 2**31 - 1
_FLOCK = "hh4xqqi4x"
"""``struct flock`` of 64-bit Linux: type, whence, start, length, pid."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a tenant found out about one kernel of one shape."""

    identity: int
    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    count: int
    mean_us: float
    variance: float


class CardRegion:
    """The files of one card. Made anew, or picked up as another daemon left them: then its tenants run on."""

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
        """``context_bytes`` is what a process's first context costs on this card; ``reclaim`` is ``build.reclaimer()``,
        without which the bytes of the dead are given back when all of a tenant's processes have ended, or by the others
        when they need them."""
        self.folder, self._context_bytes, self._reclaim = folder, context_bytes, reclaim
        (folder / "tenants").mkdir(parents=True, exist_ok=True)
        for place in (folder, folder / "tenants"):
            place.chmod(0o755)  # whatever the daemon's umask is
        path = folder / "decisions"
        if not _is_ours(path, DecisionsLayout):
            fresh = DecisionsLayout(magic=MAGIC, version=VERSION, size=ctypes.sizeof(DecisionsLayout), slots=SLOTS)
            _replace_file(path, bytes(fresh))
        self._decisions = _map(path)
        self._decisions.fail_open_ms = fail_open_ms
        self._decisions.groups, self._decisions.sms_per_group = groups, sms_per_group
        self._decisions.card = uuid.encode()
        self._clients = {slot: _open(self.path(slot)) for slot in self._left()}

    def _left(self) -> list[int]:
        attached = (slot for slot in range(SLOTS) if self._decisions.grants[slot].state == LIVE)
        return [slot for slot in attached if _is_ours(self.path(slot), ClientLayout)]

    @property
    def attached(self) -> tuple[int, ...]:
        return tuple(sorted(self._clients))

    def path(self, slot: int) -> Path:
        """The tenant's file: what ``$GPUSQUAD_TENANT`` names, or is mounted at ``/run/gpusquad/client``."""
        return self.folder / "tenants" / str(slot)

    def attach(self, slot: int, *, uid: int | None = None, gid: int | None = None, quota_bytes: int = 0) -> None:
        """An empty page that ``uid`` may write, and a grant that holds nobody but for the quota."""
        if not 0 <= slot < SLOTS:
            raise Invalid("slot", f"is {slot}; a card has slots 0 to {SLOTS - 1}")
        fresh = ClientLayout(magic=MAGIC, version=VERSION, size=ctypes.sizeof(ClientLayout), slot=slot)
        _replace_file(self.path(slot), bytes(fresh), uid, gid)
        self._forget(slot)
        self._clients[slot] = _open(self.path(slot))
        self._decisions.grants[slot].slot_generation += 1
        self.write({slot: Grant(quota_bytes=quota_bytes)})

    def detach(self, slot: int) -> None:
        """Its processes, if any are left, run on without gate, mask and quota: stop them first."""
        self._forget(slot)
        layout = self._decisions.grants[slot]
        self._decisions.grants[slot] = GrantLayout(slot_generation=layout.slot_generation)
        self.path(slot).unlink(missing_ok=True)
        self._let_know()

    def _forget(self, slot: int) -> None:
        fd = self._clients.pop(slot, None)
        if fd is not None:
            os.close(fd)

    def close(self) -> None:
        """Lets go of the files; they stay, for the next daemon."""
        for slot in self.attached:
            self._forget(slot)

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
        self._let_know()

    def _let_know(self) -> None:
        self._decisions.epoch = (self._decisions.epoch + 1) & 0xFFFFFFFF
        _wake(ctypes.addressof(self._decisions) + DecisionsLayout.epoch.offset)

    def beat(self, now_ns: int) -> None:
        """``now_ns`` is CLOCK_MONOTONIC's, which all processes of a machine share."""
        self._decisions.heartbeat_ns = now_ns

    def _read(self, slot: int, nbytes: int) -> ClientLayout:
        """By a copy: a tenant may shorten its file at any moment, and whoever touches a mapping of it then dies."""
        content = os.pread(self._clients[slot], nbytes, 0)
        return ClientLayout.from_buffer_copy(content.ljust(_ALL_BYTES, b"\0"))

    def page(self, slot: int) -> ClientPage:
        client = self._read(slot, _HEAD_BYTES)
        all_of_them = [process for process in client.procs if process.pid]
        live = [process for process in all_of_them if process.state == LIVE]
        return ClientPage(
            requested_us=sum(process.requested_us for process in all_of_them),
            completed_us=sum(process.completed_us for process in all_of_them),
            launches=sum(process.launches + process.copies + process.graphs for process in all_of_them),
            iterations=sum(process.iterations for process in all_of_them),
            in_flight=sum(process.in_flight for process in live),
            waiting=sum(process.waiting for process in live),
            used_bytes=client.used_bytes,
            peak_bytes=client.peak_bytes,
            mask_now=live[0].mask_now if live else 0,
            moves=sum(process.moves for process in all_of_them),
            waited_ns=sum(process.waited_ns for process in all_of_them),
            pids=tuple(process.pid for process in live),
            uses_collectives=any(process.uses_collectives for process in live),
        )

    def periods_us(self, slot: int) -> tuple[int, ...]:
        processes = self._read(slot, _HEAD_BYTES).procs
        return tuple(process.period_us for process in processes if process.state == LIVE and process.period_us)

    def kernels(self, slot: int) -> tuple[Kernel, ...]:
        """Rows that are being written just now are left out."""
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
        return _bury_all(self.path(slot))


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


def _bury_all(path: Path) -> int:
    """Sums are changed under a lock that Python cannot take, but none is needed once nobody is left."""
    fd = _open(path)  # of its own, so that the locks taken through it go with it
    try:
        if not all(_take(fd, index) for index in range(PROCESSES)):
            return 0
        client = ClientLayout.from_buffer_copy(os.pread(fd, _ALL_BYTES, 0))
        lost = sum(client.procs[index].used_bytes for index in _live(client))
        for process in client.procs:
            _bury(process)
        client.used_bytes = client.lock = 0
        os.pwrite(fd, bytes(client)[:_HEAD_BYTES], 0)
        return lost
    finally:
        os.close(fd)


def _bury(process: ProcessLayout) -> None:
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
    """By a new file under the old name: whoever has the old one mapped must not find it shortened."""
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
    """Whether a process holds the byte: the kernel lets go of it however the process dies."""
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, index, 1, 0)
    return struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK


def _take(fd: int, index: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, index, 1, 0))
    except BlockingIOError:
        return False
    return True


def _wake(address: int) -> None:
    number = _FUTEX.get(platform.machine())
    if number is None:
        raise Invalid("machine", f"is {platform.machine()}; tenants can be woken on {' and '.join(_FUTEX)} only")
    _LIBC.syscall(
        ctypes.c_long(number),
        ctypes.c_void_p(address),
        ctypes.c_int(_FUTEX_WAKE),
        ctypes.c_int(_EVERYBODY),
        None,
        None,
        0,
    )
