"""A region in plain memory: for the simulator of a card, and for tests of the loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpusquad.gpu.region.pages import ClientPage, Grant


class MemoryRegion:
    """Pages are set by whoever plays the tenants."""

    def __init__(self, slots: int = 32) -> None:
        self.slots = slots
        self.pages: dict[int, ClientPage] = {}
        self.grants: dict[int, Grant] = {}
        self.dead_bytes: dict[int, int] = {}
        """Bytes of processes that died, by slot, until they are reclaimed."""
        self.told_us: dict[int, list[int]] = {}
        """What requests took, by slot, as the tenants' programs tell it."""
        self.repeats_us: dict[int, tuple[int, ...]] = {}
        """How long iterations of its processes take, by slot."""
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
        return self.repeats_us.get(slot, ())

    def served(self, slot: int, seen: int | None) -> tuple[int, tuple[int, ...]]:
        told = self.told_us.get(slot, ())
        return len(told), tuple(told[len(told) if seen is None else seen :])

    def reclaim(self, slot: int) -> int:
        lost = self.dead_bytes.pop(slot, 0)
        if lost:
            page = self.pages[slot]
            self.pages[slot] = replace(page, used_bytes=page.used_bytes - lost)
        return lost

    def write(self, grants: Mapping[int, Grant]) -> None:
        self.grants.update(grants)
        self.writes += 1

    def beat(self, now_ns: int) -> None:
        self.beats += 1
