"""A region in plain memory, for the card simulator and for tests of the squad loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpusquad.gpu.region.pages import ClientPage, Grant


class MemoryRegion:
    """The test sets the pages of the GPU clients."""

    def __init__(self, slots: int = 32) -> None:
        self.slots = slots
        self.pages: dict[int, ClientPage] = {}
        self.grants: dict[int, Grant] = {}
        self.dead_bytes: dict[int, int] = {}
        """Bytes of dead processes by slot, until they are reclaimed."""
        self.latencies_us: dict[int, list[int]] = {}
        """Request latencies by slot, as reported by the programs."""
        self.iterations_us: dict[int, tuple[int, ...]] = {}
        """Iteration times of the processes, by slot."""
        self.writes = 0
        self.beats = 0

    @property
    def attached(self) -> tuple[int, ...]:
        return tuple(sorted(self.pages))

    def attach(self, slot: int, *, uid: int | None = None, gid: int | None = None, quota_bytes: int = 0) -> None:
        self.pages[slot] = ClientPage()
        self.grants[slot] = Grant(quota_bytes=quota_bytes)

    def detach(self, slot: int) -> None:
        self.pages.pop(slot, None)
        self.grants.pop(slot, None)

    def page(self, slot: int) -> ClientPage:
        return self.pages[slot]

    def periods_us(self, slot: int) -> tuple[int, ...]:
        return self.iterations_us.get(slot, ())

    def served(self, slot: int, seen: int | None) -> tuple[int, tuple[int, ...]]:
        reported = self.latencies_us.get(slot, ())
        return len(reported), tuple(reported[len(reported) if seen is None else seen :])

    def reclaim(self, slot: int) -> int:
        reclaimed = self.dead_bytes.pop(slot, 0)
        if reclaimed:
            page = self.pages[slot]
            self.pages[slot] = replace(page, used_bytes=page.used_bytes - reclaimed)
        return reclaimed

    def write(self, grants: Mapping[int, Grant]) -> None:
        self.grants.update(grants)
        self.writes += 1

    def beat(self, now_ns: int) -> None:
        self.beats += 1
