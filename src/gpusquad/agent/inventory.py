"""What any source of GPU facts answers. NVML is one, the simulation another; one contract test runs against both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

OnFault = Callable[[str, str], None]
"""Told a card's id and what happened to it; called from any thread."""


class SourceUnavailable(RuntimeError):
    """There is no way to ask for cards here (now): no driver, no library, or one that no longer fits the other."""


@dataclass(frozen=True, slots=True)
class CardInfo:
    """What does not change about a card."""

    id: str
    index: int
    model: str
    memory_bytes: int
    sms: int
    domain: int
    pci: str


@dataclass(frozen=True, slots=True)
class CardProcess:
    """A process that holds memory on a card."""

    pid: int
    memory_bytes: int | None = None
    utilisation_ratio: float | None = None
    """How much of the time its kernels ran; None where only the card as a whole is known."""
    name: str = ""


@dataclass(frozen=True, slots=True)
class CardReading:
    """A card at one instant. None: this card or driver does not tell."""

    id: str
    utilisation_ratio: float | None = None
    memory_utilisation_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    throttle: tuple[str, ...] | None = None
    processes: tuple[CardProcess, ...] | None = None
    trouble: str | None = None
    """Why the card cannot be used now; None: it answers well."""


@dataclass(frozen=True, slots=True)
class JobProcess:
    """A process of a run, as the operating system counts it."""

    pid: int
    name: str
    job: str
    attempt: int
    cards: tuple[str, ...]
    cpu_ratio: float | None
    """CPU seconds a second: 2.0 is two cores. None: seen for the first time."""
    rss_bytes: int


class Inventory(Protocol):
    """The cards of this machine."""

    @property
    def simulated(self) -> bool: ...

    @property
    def driver(self) -> str: ...

    @property
    def cards(self) -> Sequence[CardInfo]:
        """Always the same cards in the same order, also while one is lost."""
        ...

    def read(self, processes: Sequence[JobProcess]) -> list[CardReading]:
        """One reading a card, in the order of ``cards``. Fails for the whole machine only (SourceUnavailable)."""
        ...

    def watch(self, on_fault: OnFault) -> None:
        """From now on tell of faults as they happen, where the source hears of them between readings."""
        ...

    def close(self) -> None: ...
