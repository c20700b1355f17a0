"""Simulated cards, for trying gpusquad without a GPU. The jobs' CPU work stands for their GPU work."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpusquad.agent.inventory import CardInfo, CardProcess, CardReading, CardTester, JobProcess, OnFault, TestResult
from gpusquad.model.card_faults import class_of_event

FAULTS_FILE = "sim-faults.json"
"""In the home folder: maps a card's id to the reason why it fails. Remove the entry and the card recovers. The key
``process:NAME`` gives each card a fault on which a process of that name runs, and ``test:ID`` fails a card's self-test.
"""

_GIB = 2**30
_MEMORY_BYTES = 80 * _GIB
_SMS = 132
_IDLE_W, _LIMIT_W = 70.0, 700.0
_COOL_C, _WARM_C = 30.0, 70.0
_IDLE_MHZ, _BUSY_MHZ, _MEMORY_MHZ = 345, 1980, 3201
_FAULTS_BYTES = 64 * 1024
_log = logging.getLogger(__name__)


class SimulatedInventory:
    """``count`` equal cards ``SIM-0``, ``SIM-1`` …; one busy CPU core is one busy card."""

    simulated = True
    driver = "simulated"

    def __init__(self, count: int, home: Path) -> None:
        self.cards = [
            CardInfo(f"SIM-{index}", index, "Simulated", _MEMORY_BYTES, _SMS, 0, f"simulated:{index}")
            for index in range(count)
        ]
        self._faults = home / FAULTS_FILE
        self._complaint = ""
        self._on_fault: OnFault | None = None
        self._struck: set[tuple[str, int]] = set()
        """Cards and processes whose fault was reported."""

    def read(self, processes: Sequence[JobProcess]) -> list[CardReading]:
        faults = self._read_faults()
        self._strike(processes, faults)
        return [_read(card, _on_card(card.id, processes), faults.get(card.id)) for card in self.cards]

    def watch(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault

    @property
    def tester(self) -> CardTester:
        return self

    def test(self, card: str) -> TestResult:
        """Passes, unless the file says that it fails."""
        if card not in {known.id for known in self.cards}:
            return TestResult(None, f"there is no card {card}")
        cause = self._read_faults().get(f"test:{card}")
        return TestResult(cause is None, cause or "a simulated card")

    def close(self) -> None:
        """Nothing is held."""

    def _strike(self, processes: Sequence[JobProcess], faults: Mapping[str, str]) -> None:
        """Report the faults that processes cause, once for each process and card."""
        if self._on_fault is None:
            return
        now = {(card, one.pid): cause for one in processes if (cause := faults.get(f"process:{one.name}"))
               for card in one.cards}  # fmt: skip
        for (card, pid), cause in now.items():
            if (card, pid) not in self._struck:
                self._on_fault(card, cause, class_of_event(cause))
        self._struck = set(now)

    def _read_faults(self) -> Mapping[str, str]:
        """Empty if the file is missing or invalid; an invalid file is logged once."""
        try:
            with self._faults.open("rb") as file:
                faults = json.loads(file.read(_FAULTS_BYTES))
            found = {str(card): str(cause or "simulated fault") for card, cause in faults.items()}
            self._complaint = ""
            return found
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                _log.warning('%s: %s; write {"SIM-0": "cause"}', self._faults.name, error)
            return {}


def _on_card(card: str, processes: Sequence[JobProcess]) -> tuple[CardProcess, ...]:
    """A process with several cards uses all of them equally."""
    return tuple(
        CardProcess(
            pid=process.pid,
            memory_bytes=process.rss_bytes // len(process.cards),
            utilisation_ratio=None if process.cpu_ratio is None else min(process.cpu_ratio / len(process.cards), 1.0),
            name=process.name,
        )
        for process in processes
        if card in process.cards
    )


def _read(card: CardInfo, processes: tuple[CardProcess, ...], fault: str | None) -> CardReading:
    if fault is not None:
        return CardReading(card.id, trouble=fault)
    busy = min(sum((process.utilisation_ratio or 0.0 for process in processes), start=0.0), 1.0)
    used_bytes = min(sum(process.memory_bytes or 0 for process in processes), _MEMORY_BYTES)
    return CardReading(
        id=card.id,
        utilisation_ratio=busy,
        memory_utilisation_ratio=busy / 2,
        memory_used_bytes=used_bytes,
        memory_total_bytes=_MEMORY_BYTES,
        power_w=_IDLE_W + busy * (_LIMIT_W - _IDLE_W),
        power_limit_w=_LIMIT_W,
        temperature_c=_COOL_C + busy * (_WARM_C - _COOL_C),
        sm_clock_mhz=_BUSY_MHZ if busy else _IDLE_MHZ,
        memory_clock_mhz=_MEMORY_MHZ,
        ecc_corrected=0,
        ecc_uncorrected=0,
        throttle=(),
        processes=processes,
    )
