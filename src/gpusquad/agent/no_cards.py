"""A machine without cards: its CPU still takes work, and its runs are still watched."""

from __future__ import annotations

from collections.abc import Sequence

from gpusquad.agent.inventory import CardInfo, CardReading, JobProcess, OnFault


class NoCards:
    """An inventory of nothing."""

    simulated = False
    driver = ""
    cards: Sequence[CardInfo] = ()

    def read(self, processes: Sequence[JobProcess]) -> list[CardReading]:
        del processes
        return []

    def watch(self, on_fault: OnFault) -> None:
        """Nothing can fail."""

    def close(self) -> None:
        """Nothing is held."""
