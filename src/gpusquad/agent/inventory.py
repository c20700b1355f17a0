"""The interface of a source of GPU data. NVML and the simulation implement it; one contract test runs against both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpusquad.model.card_faults import FaultClass

OnFault = Callable[[str, str, FaultClass], None]
"""Called with a card's id, what happened to it and what that says about the card, from any thread."""


class SourceUnavailable(RuntimeError):
    """Cards cannot be read here (now): no driver, no library, or versions that do not match."""


@dataclass(frozen=True, slots=True)
class CardInfo:
    """Static data of a card."""

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
    """Fraction of the time its kernels ran; None if only the card's total is known."""
    name: str = ""


@dataclass(frozen=True, slots=True)
class CardReading:
    """A card at one instant. None: the card or driver does not report it."""

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
    received_bytes_s: float | None = None
    """Over its bus, if it is busy and draws little power."""
    idle_received_bytes_s: float | None = None
    computes: bool | None = None
    """Whether arithmetic units or memory worked since the last reading, if it has been busy since then."""
    processes: tuple[CardProcess, ...] | None = None
    trouble: str | None = None
    """Why the card cannot be used now; None: it answers well."""


@dataclass(frozen=True, slots=True)
class JobProcess:
    """A process of a run, as the operating system accounts it."""

    pid: int
    name: str
    job: str
    attempt: int
    cards: tuple[str, ...]
    cpu_ratio: float | None
    """CPU seconds per second: 2.0 is two cores. None: seen for the first time."""
    rss_bytes: int


@dataclass(frozen=True, slots=True)
class TestResult:
    """Result of one self-test."""

    __test__ = False  # not a test of pytest

    passed: bool | None
    """None: the card cannot be tested here. It returns when it has been well for a while."""
    detail: str = ""


class CardTester(Protocol):
    """Tests a physical card that no job uses. It may take a minute, and does not raise."""

    def test(self, card: str) -> TestResult: ...


class Inventory(Protocol):
    """The cards of this machine."""

    @property
    def simulated(self) -> bool: ...

    @property
    def driver(self) -> str: ...

    @property
    def cards(self) -> Sequence[CardInfo]:
        """Always the same cards in the same order, even while one is lost."""
        ...

    def read(self, processes: Sequence[JobProcess]) -> list[CardReading]:
        """One reading per card, in the order of ``cards``. Fails only for the whole machine (SourceUnavailable)."""
        ...

    def watch(self, on_fault: OnFault) -> None:
        """Report faults as they happen, if the source receives them between readings."""
        ...

    @property
    def tester(self) -> CardTester:
        """Tests one of these cards."""
        ...

    def close(self) -> None: ...
