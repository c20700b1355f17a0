"""A machine without cards: it still runs CPU jobs, and its runs are still monitored."""

from __future__ import annotations

from collections.abc import Sequence

from gpusquad.agent.inventory import CardInfo, CardReading, CardTester, JobProcess, OnFault
from gpusquad.agent.self_test import NoTester


class NoCards:
    """An empty inventory."""

    simulated = False
    driver = ""
    cards: Sequence[CardInfo] = ()

    def read(self, processes: Sequence[JobProcess]) -> list[CardReading]:
        del processes
        return []

    def watch(self, on_fault: OnFault) -> None:
        """Nothing can fail."""

    @property
    def tester(self) -> CardTester:
        return NoTester()

    def close(self) -> None:
        """Nothing is held."""
