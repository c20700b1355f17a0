"""CPU and memory of this machine, or of the part of it that our container may use."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class HostResources:
    """What tasks may use beside cards."""

    id: str
    cpu_milli: int
    memory_bytes: int


def this_machine(cgroups: Path = _CGROUPS, own: Path = Path("/proc/self/cgroup")) -> HostResources:
    """Never more than the kernel would grant."""
    folders = list(_own_folders(cgroups, own))
    cpu_milli = min([len(os.sched_getaffinity(0)) * 1000, *filter(None, map(_cpu_limit_milli, folders))])
    memory_bytes = min([_physical_bytes(), *filter(None, map(_memory_limit_bytes, folders))])
    return HostResources(socket.gethostname(), cpu_milli, memory_bytes)


def _own_folders(cgroups: Path, own: Path) -> Iterator[Path]:
    """Every folder whose limits apply to us: our group's and those above it, in each hierarchy (v2, and v1's two)."""
    for line in _text(own).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        wanted = {"cpu", "memory", ""} & set(controllers.split(","))
        if not wanted:
            continue
        # v1 mounts a hierarchy under the names of its controllers, in either order, or of one of them.
        roots = [cgroups] if not controllers else [cgroups / controllers, *(cgroups / name for name in wanted)]
        parts = [part for part in name.split("/") if part not in ("", "..", ".")]
        for root in roots:
            for depth in range(len(parts) + 1):
                yield root.joinpath(*parts[:depth])


def _cpu_limit_milli(folder: Path) -> int | None:
    quota, _, period = _text(folder / "cpu.max").strip().partition(" ")
    if not quota:
        quota, period = _text(folder / "cpu.cfs_quota_us").strip(), _text(folder / "cpu.cfs_period_us").strip()
    if quota.isdigit() and period.isdigit() and int(period) > 0:  # "max" and -1 mean no limit
        return max(int(quota) * 1000 // int(period), 1)
    return None


def _memory_limit_bytes(folder: Path) -> int | None:
    limit = (_text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes")).strip()
    return int(limit) if limit.isdigit() and int(limit) > 0 else None


def _physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
