"""Physical cards shown as several virtual cards each.

A process counts for the virtual card that it was given. A process without one disturbs the whole card, so it is shown
on each virtual card. Values known only for the whole card (clocks, temperature, health) are the same on all of them;
power is divided, so that sums stay true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpusquad.agent.inventory import CardInfo, CardProcess, CardReading, CardTester, Inventory, JobProcess, OnFault
from gpusquad.model.card_faults import FaultClass
from gpusquad.model.sm_groups import SMS_PER_GROUP, sm_groups
from gpusquad.model.virtual import VirtualCard, parts_of, physical


def divided(inventory: Inventory, count: int) -> Inventory:
    """Number of virtual cards per card; 1: none."""
    return inventory if count == 1 else VirtualInventory(inventory, count)


class VirtualInventory:
    """Another inventory, each card of it divided into ``count`` equal virtual cards."""

    def __init__(self, inner: Inventory, count: int) -> None:
        self._inner = inner
        self._count = count
        self.cards = [
            _part_facts(card, part, number)
            for number, (card, part) in enumerate(
                (card, part) for card in inner.cards for part in parts_of(card.id, count)
            )
        ]

    @property
    def simulated(self) -> bool:
        return self._inner.simulated

    @property
    def driver(self) -> str:
        return self._inner.driver

    def read(self, processes: Sequence[JobProcess]) -> list[CardReading]:
        given = {process.pid: frozenset(process.cards) for process in processes}
        whole = [replace(process, cards=tuple(map(physical, process.cards))) for process in processes]
        return [
            _part_reading(reading, part, given)
            for reading in self._inner.read(whole)
            for part in parts_of(reading.id, self._count)
        ]

    def watch(self, on_fault: OnFault) -> None:
        def tell(card: str, cause: str, kind: FaultClass) -> None:
            for part in parts_of(card, self._count):
                on_fault(part.id, cause, kind)

        self._inner.watch(tell)

    @property
    def tester(self) -> CardTester:
        return self._inner.tester

    def close(self) -> None:
        self._inner.close()


def _part_facts(card: CardInfo, part: VirtualCard, index: int) -> CardInfo:
    sms = part.of_groups(sm_groups(card.sms))[1] * SMS_PER_GROUP if card.sms else 0
    return replace(card, id=part.id, index=index, memory_bytes=part.of_bytes(card.memory_bytes), sms=sms)


def _part_reading(reading: CardReading, part: VirtualCard, given: dict[int, frozenset[str]]) -> CardReading:
    mine = None if reading.processes is None else tuple(_on_part(reading.processes, part, given))
    total = reading.memory_total_bytes
    return replace(
        reading,
        id=part.id,
        utilisation_ratio=_utilisation(reading, mine),
        memory_used_bytes=_used(mine),
        memory_total_bytes=None if total is None else part.of_bytes(total),
        power_w=None if reading.power_w is None else reading.power_w / part.count,
        power_limit_w=None if reading.power_limit_w is None else reading.power_limit_w / part.count,
        processes=mine,
    )


def _on_part(
    processes: Sequence[CardProcess], part: VirtualCard, given: dict[int, frozenset[str]]
) -> Iterator[CardProcess]:
    for process in processes:
        cards = given.get(process.pid)
        if cards is None or part.id in cards:
            yield process


def _utilisation(reading: CardReading, mine: Sequence[CardProcess] | None) -> float | None:
    """From its own processes if each is known; none if it has no process; otherwise the card's total, which others
    share.
    """
    if mine is None or any(process.utilisation_ratio is None for process in mine):
        return reading.utilisation_ratio
    return min(sum(process.utilisation_ratio or 0.0 for process in mine), 1.0)


def _used(mine: Sequence[CardProcess] | None) -> int | None:
    if mine is None or any(process.memory_bytes is None for process in mine):
        return None
    return sum(process.memory_bytes or 0 for process in mine)
