"""Advice on the CPU and main memory of a task: from past runs, else from an offline estimate, else the fair share of a
node.

A task with whole GPUs may use as much of a node as its GPUs are of the node's: more would leave GPUs idle beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from gpusquad.model.job import Job
from gpusquad.model.units import WHOLE_MILLI, show_cores, show_gib
from gpusquad.predict.memory import FEW, peak_quantiles
from gpusquad.predict.similar_runs import MIN_WEIGHT, RunGroup, RunSummary

GIB, MIB = 2**30, 2**20
FAIR_SHARE = "fair share"
"""Source of advice without evidence on the job."""
SAFE_LEVEL = 0.95
"""The fraction of runs that should fit into the advised request."""
CPU_HEADROOM = 1.2
MIN_CPU_MILLI = 1000
"""For a task without cards or with a part of a card, unless a whole card's fair share is less."""
LEAST_CPU_MILLI, LEAST_MEMORY_BYTES = 100, 64 * MIB
"""Nothing below is chosen."""
MIN_MEMORY_BYTES = GIB
"""Of a node's fair share, if that much fits."""
THROTTLED_RATIO = 0.9
"""A run that used more of its CPU limit than this may have needed more."""
_CPU_STEP_MILLI, _SMALL_CPU_STEP_MILLI = 500, 50
"""The smaller one below a core."""
_STEPS = ((GIB, 64 * MIB), (8 * GIB, 256 * MIB))
"""Sizes up to the first number are multiples of the second; larger ones of a GiB."""


@dataclass(frozen=True, slots=True)
class HostRoom:
    """CPU and memory of the nodes that a job may run on. 0: unknown."""

    cpu_milli: int = 0
    """Of the largest node."""
    memory_bytes: int = 0
    share_cpu_milli: int = 0
    """Fair share of one card, on the node where it is smallest."""
    share_memory_bytes: int = 0
    core_memory_bytes: int = 0
    """Memory per core, on the node where it is smallest."""


@dataclass(frozen=True, slots=True)
class HostAdvice:
    """One amount for each task, where it is from, and why."""

    value: int
    source: str
    """``history``, ``estimate`` or ``fair share``."""
    why: str


def cpu_advice(job: Job, group: RunGroup | None, runs: Sequence[RunSummary], room: HostRoom) -> HostAdvice | None:
    """Thousandths of a core. None: nothing is known of the nodes either."""
    measured = [seen for seen in runs if seen.cpu_milli]
    expected_milli = job.expected.cpu_milli if job.expected is not None else 0
    if expected_milli and not _outweighs(group, measured):
        return HostAdvice(
            _whole_cores(expected_milli), "estimate", f"{show_cores(expected_milli)} by the offline estimate"
        )
    if measured and group is not None:
        return _cpu_by_runs(job, group, measured, room)
    milli = fair_cpu_milli(job, room)
    return HostAdvice(milli, FAIR_SHARE, f"no data on such jobs; {_share_of(job)}") if milli else None


def memory_advice(job: Job, group: RunGroup | None, runs: Sequence[RunSummary], room: HostRoom) -> HostAdvice | None:
    """Bytes. None: nothing is known of the nodes either. ``runs``: the latest last."""
    found = _memory_by_evidence(job, group, runs, room)
    needed = _needed_bytes(group, runs)
    if not needed or (found is not None and found.value >= needed):
        return found
    why = f"a run of this kind was killed for lack of memory; {show_gib(needed)} is twice what it requested"
    return HostAdvice(_at_most(needed, room.memory_bytes), "history", why)


def _memory_by_evidence(
    job: Job, group: RunGroup | None, runs: Sequence[RunSummary], room: HostRoom
) -> HostAdvice | None:
    measured = [seen for seen in runs if seen.host_memory_bytes]
    expected_bytes = job.expected.host_memory_bytes if job.expected is not None else 0
    if expected_bytes and not _outweighs(group, measured) and not _is_exceeded(expected_bytes, group, measured):
        needed = rounded_bytes(round(expected_bytes * CPU_HEADROOM))
        return HostAdvice(_at_most(needed, room.memory_bytes), "estimate", f"{show_gib(expected_bytes)} by the offline "
                          "estimate, and 20 %")  # fmt: skip
    peak = peak_quantiles(measured, group.weight, lambda seen: seen.host_memory_bytes) if group is not None else None
    if peak is not None and group is not None:
        needed = rounded_bytes(peak.at(SAFE_LEVEL))
        why = f"peak {show_gib(peak.at(0.5))} median, {show_gib(peak.at(0.9))} P90 of {len(measured)} {group.name}"
        return HostAdvice(_at_most(needed, room.memory_bytes), "history", why)
    share_bytes = fair_memory_bytes(job, room)
    return HostAdvice(share_bytes, FAIR_SHARE, f"no data on such jobs; {_share_of(job)}") if share_bytes else None


def _needed_bytes(group: RunGroup | None, runs: Sequence[RunSummary]) -> int:
    """Memory that killed runs show to be needed, until complete runs have shown how much it really is. 0: none was."""
    if group is None or group.weight < MIN_WEIGHT:
        return 0
    needed = complete = 0
    for seen in reversed(runs):
        complete += seen.is_whole and bool(seen.host_memory_bytes)
        if complete == FEW:
            break
        needed = max(needed, seen.needed_bytes)
    return needed


def _is_exceeded(expected_bytes: int, group: RunGroup | None, measured: Sequence[RunSummary]) -> bool:
    """Whether a run used more than an offline estimate, which is too small then."""
    highest = max((seen.host_memory_bytes or 0 for seen in measured), default=0)
    return group is not None and group.weight >= MIN_WEIGHT and highest > expected_bytes


def fair_cpu_milli(job: Job, room: HostRoom) -> int:
    """Fair share of a task. 0: unknown."""
    if not room.cpu_milli:
        return 0
    cards = _cards_milli(job)
    if not cards:
        return min(MIN_CPU_MILLI, room.cpu_milli)
    fair = max(room.share_cpu_milli * cards // WHOLE_MILLI, min(MIN_CPU_MILLI, room.share_cpu_milli), LEAST_CPU_MILLI)
    step = _CPU_STEP_MILLI if fair >= MIN_CPU_MILLI else _SMALL_CPU_STEP_MILLI
    return min(fair // step * step, room.cpu_milli)


def fair_memory_bytes(job: Job, room: HostRoom) -> int:
    """Fair share of a task: with its cards, or with its cores if it has none. 0: unknown."""
    if not room.memory_bytes:
        return 0
    request = job.roles[0].request
    cards = _cards_milli(job)
    fair = (
        room.share_memory_bytes * cards // WHOLE_MILLI
        if cards
        else room.core_memory_bytes * (request.cpu_milli or MIN_CPU_MILLI) // 1000
    )
    return min(max(MIN_MEMORY_BYTES, fair // (64 * MIB) * (64 * MIB)), room.memory_bytes)


def rounded_bytes(amount: int) -> int:
    """Rounded up to a size that is easy to read."""
    step = next((step for limit, step in _STEPS if amount <= limit), GIB)
    return ceil(amount / step) * step


def size_text(amount: int) -> str:
    """As written in a job file."""
    return f"{amount // GIB}GiB" if amount % GIB == 0 else f"{ceil(amount / MIB)}MiB"


def _outweighs(group: RunGroup | None, measured: Sequence[RunSummary]) -> bool:
    """Whether these runs say more than an offline estimate. Runs of the same script may have had other arguments."""
    return group is not None and group.weight >= MIN_WEIGHT and sum(seen.is_whole for seen in measured) >= FEW


def _cpu_by_runs(job: Job, group: RunGroup, measured: Sequence[RunSummary], room: HostRoom) -> HostAdvice:
    used = sorted(seen.cpu_milli or 0 for seen in measured)
    high = _at(used, SAFE_LEVEL)
    milli = _whole_cores(round(high * CPU_HEADROOM))
    why = f"{show_cores(high)} used at most in 95 % of {len(measured)} {group.name}"
    throttled = [seen for seen in measured if seen.cpu_limit_milli and (seen.cpu_milli or 0) >= THROTTLED_RATIO
                 * seen.cpu_limit_milli]  # fmt: skip
    if throttled:
        limit = max(seen.cpu_limit_milli for seen in throttled)
        wanted = max(milli, min(2 * limit, max(fair_cpu_milli(job, room), room.cpu_milli // 2 if not job.gpus else 0)))
        why += f"; {len(throttled)} used all of {show_cores(limit)}"
        milli = wanted
    return HostAdvice(_at_most(milli, room.cpu_milli), "history", why)


def _cards_milli(job: Job) -> int:
    """Cards of one task, in thousandths."""
    request = job.roles[0].request
    return request.gpus * WHOLE_MILLI if request.share is None else max(request.share.sm_milli, 1)


def _share_of(job: Job) -> str:
    request = job.roles[0].request
    if request.gpus:
        return f"the fair share of a node with {request.gpus} GPU{'s' * (request.gpus != 1)}"
    return "the fair share of a part of a card" if request.share is not None else "one core and its share of a node"


def _at(ordered: Sequence[int], level: float) -> int:
    """Interpolate between the two values around a level."""
    place = level * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return round(ordered[low] + (place - low) * (ordered[high] - ordered[low]))


def _whole_cores(milli: int) -> int:
    return max(1, ceil(milli / _CPU_STEP_MILLI)) * _CPU_STEP_MILLI


def _at_most(value: int, limit: int) -> int:
    return min(value, limit) if limit else value
