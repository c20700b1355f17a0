"""Peak GPU memory and CPU of running attempts, from the agent's samples. Kept in memory only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpusquad.core.ports import TaskUsage
from gpusquad.model.units import US_PER_S

MINUTE_US = 60 * US_PER_S
_MILLI = 1000


@dataclass(slots=True)
class AttemptPeak:
    """Peaks of one attempt."""

    memory_bytes: int | None = None
    """Largest amount on any one card."""
    is_whole: bool = True
    """The attempt was sampled from its start."""
    cpu_milli: int | None = None
    """Largest one-minute mean of one task; averaged over tasks if there are several."""
    host_memory_bytes: int | None = None
    """Largest main memory of one task; averaged over tasks if there are several. Memory that its processes share counts
    for each of them."""
    cards: int | None = None
    """Largest number of cards on which its processes held memory."""
    minute: int = -1
    looks: int = 0
    cores: float = 0.0
    """Sum over the samples of this minute."""


class Peaks:
    """Written by the agent's reader thread, read by the scheduler's."""

    def __init__(self) -> None:
        self._peaks: dict[tuple[str, int], AttemptPeak] = {}

    def found(self, job_id: str, attempt: int) -> None:
        """The attempt started before this service: its earlier usage is unknown."""
        self._peaks.setdefault((job_id, attempt), AttemptPeak()).is_whole = False

    def see(self, run: Mapping[str, Any], cards: Mapping[str, Mapping[str, Any]], at_us: int, tasks: int) -> None:
        """Add one sample of a run."""
        key = (run["job"], run["attempt"])
        peak = self._peaks.setdefault(key, AttemptPeak())
        used = [bytes_ for card in cards.values() if (bytes_ := _held(card, key)) is not None]
        if used:
            peak.memory_bytes = max(peak.memory_bytes or 0, *used)
            peak.cards = max(peak.cards or 0, sum(held > 0 for held in used))
        if run.get("cpu_ratio") is not None:
            _count(peak, float(run["cpu_ratio"]) / max(1, tasks), at_us // MINUTE_US)
        if run.get("rss_bytes"):
            peak.host_memory_bytes = max(peak.host_memory_bytes or 0, int(run["rss_bytes"]) // max(1, tasks))

    def seen(self, job_id: str, attempt: int) -> int | None:
        """Peak memory on one card so far. None: no sample yet."""
        peak = self._peaks.get((job_id, attempt))
        return peak.memory_bytes if peak else None

    def now(self, job_id: str, attempt: int) -> AttemptPeak:
        """Copy of the peaks so far, with those of the current minute."""
        peak = replace(self._peaks.get((job_id, attempt), AttemptPeak()))
        _close_minute(peak)
        return peak

    def is_whole(self, job_id: str, attempt: int) -> bool:
        """Whether the attempt was sampled from its start."""
        peak = self._peaks.get((job_id, attempt))
        return peak is None or peak.is_whole

    def take(self, job_id: str, attempt: int, usage: TaskUsage | None = None) -> AttemptPeak:
        """Remove and return the peaks of an attempt that ended. ``usage``: as the engine measured it."""
        peak = self._peaks.pop((job_id, attempt), AttemptPeak())
        _close_minute(peak)
        if usage is not None:
            peak.cpu_milli = max(peak.cpu_milli or 0, usage.cpu_milli) or None
            peak.host_memory_bytes = _host_memory(peak.host_memory_bytes, usage) or None
        return peak

    def forget(self, there: Collection[str]) -> None:
        """Drop all jobs but these."""
        for key in [key for key in self._peaks if key[0] not in there]:
            self._peaks.pop(key, None)


def _host_memory(sampled_bytes: int | None, usage: TaskUsage) -> int:
    """Samples count shared memory several times, and control groups count file caches: the smaller one is closer. A run
    that was too short for a sample has few caches.
    """
    known = [found for found in (sampled_bytes, usage.group_bytes) if found]
    return max(usage.largest_bytes, min(known, default=0))


def _held(card: Mapping[str, Any], key: tuple[str, int]) -> int | None:
    """Memory of the run on that card. None if unknown or zero."""
    mine = [p["memory_bytes"] for p in card.get("processes") or () if (p.get("job"), p.get("attempt")) == key]
    known = [held for held in mine if held is not None]
    return sum(known) if known else None


def _count(peak: AttemptPeak, cores: float, minute: int) -> None:
    if minute != peak.minute:
        _close_minute(peak)
        peak.minute, peak.looks, peak.cores = minute, 0, 0.0
    peak.looks += 1
    peak.cores += cores


def _close_minute(peak: AttemptPeak) -> None:
    if peak.looks:
        peak.cpu_milli = max(peak.cpu_milli or 0, round(_MILLI * peak.cores / peak.looks))
