"""Processes on an NVIDIA card, with their memory and utilisation."""

from __future__ import annotations

from gpusquad.agent.inventory import CardProcess
from gpusquad.agent.nvml_calls import NvmlCard
from gpusquad.agent.nvml_facts import text

_LISTS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
)


def card_processes(questions: NvmlCard, utilisation: dict[int, float] | None) -> tuple[CardProcess, ...] | None:
    """Each process once, although it may be on several lists. None: the driver does not report them."""
    memory_bytes: dict[int, int | None] = {}
    told = False
    for name in _LISTS:
        entries = questions.card(name)
        told = told or entries is not None
        for entry in entries or ():
            used = entry.usedGpuMemory  # None inside some containers and on some cards
            memory_bytes[entry.pid] = max(used or 0, memory_bytes.get(entry.pid) or 0) or used
    if not told:
        return None
    return tuple(
        CardProcess(
            pid=pid,
            memory_bytes=used,
            utilisation_ratio=None if utilisation is None else utilisation.get(pid, 0.0),
            name=text(questions.ask("nvmlSystemGetProcessName", pid)).rpartition("/")[2],
        )
        for pid, used in sorted(memory_bytes.items())
    )


def process_utilisation(questions: NvmlCard, since_us: int) -> tuple[dict[int, float] | None, int]:
    """Utilisation by pid since the given time (in the driver's clock), and the time to pass next. None: unknown."""
    samples = questions.card("nvmlDeviceGetProcessUtilization", since_us)
    if not samples:
        return None, since_us
    # Drivers sometimes return entries that were never filled in; their numbers make no sense.
    sane = [sample for sample in samples if 0 <= sample.smUtil <= 100 and sample.timeStamp > 0]
    newest_us = max((int(sample.timeStamp) for sample in sane), default=since_us)
    return {int(sample.pid): sample.smUtil / 100 for sample in sane}, max(newest_us, since_us)
