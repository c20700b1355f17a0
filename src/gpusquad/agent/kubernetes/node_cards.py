"""Cards of this node and their health, for the kubelet and the scheduler."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from gpusquad.agent.health import WELL_FOR_S, CardHealth
from gpusquad.agent.inventory import CardInfo, CardReading, Inventory, JobProcess
from gpusquad.agent.sampler import tested
from gpusquad.agent.self_test import CardTests
from gpusquad.kube.names import ANNOTATIONS_VERSION
from gpusquad.model.card_faults import FaultClass

MAX_CAUSE = 200


class NodeCards:
    """Reads the cards on request, and wakes threads that wait for a change of health."""

    def __init__(
        self, inventory: Inventory, well_for_s: float = WELL_FOR_S, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.facts: Sequence[CardInfo] = tuple(inventory.cards)
        self.by_id = {card.id: card for card in self.facts}
        self._inventory = inventory
        self._clock_s = clock_s
        self._health = CardHealth([card.id for card in self.facts], well_for_s)
        self.tests = CardTests(inventory.tester)
        self._causes: dict[str, str] = {}
        self._kinds: dict[str, FaultClass] = {}
        self._version = 0
        self._changed = threading.Condition()

    def start(self) -> None:
        """The first reading. A card that works now can be used at once."""
        self._inventory.watch(self._on_fault)
        self.look(())

    def look(self, processes: Sequence[JobProcess]) -> list[CardReading]:
        readings = self._inventory.read(processes)
        for reading in readings:
            self._take(self._health.see(reading, self._clock_s()))
        used = [card for process in processes for card in process.cards]
        self._take(tested(self.tests, self._health, readings, used, self._clock_s()))
        return readings

    @property
    def version(self) -> int:
        """Changes with each change of health."""
        return self._version

    def wait(self, version: int, timeout_s: float) -> int:
        """Waits for another version than this, or for the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != version, timeout_s)
            return self._version

    def wake(self) -> None:
        """Makes waiting threads check their condition again."""
        with self._changed:
            self._changed.notify_all()

    def is_ok(self, card: str) -> bool:
        return card in self.by_id and card not in self._causes

    def why_not(self, card: str) -> str:
        return self._causes.get(card, "")

    def description(self) -> list[dict[str, Any]]:
        """The annotation that the scheduler reads."""
        return [
            {"id": card.id, "model": card.model, "memory_bytes": card.memory_bytes, "sms": card.sms,
             "domain": card.domain, "ok": self.is_ok(card.id), "annotations": ANNOTATIONS_VERSION,
             **self._fault_of(card.id)}
            for card in self.facts
        ]  # fmt: skip

    def _fault_of(self, card: str) -> dict[str, str]:
        cause = self._causes.get(card)
        return {} if cause is None else {"fault": cause[:MAX_CAUSE], "fault_class": self._kinds[card]}

    def _on_fault(self, card: str, cause: str, kind: FaultClass) -> None:
        self._take(self._health.fault(card, cause, self._clock_s(), kind))

    def _take(self, verdicts: list[dict[str, Any]]) -> None:
        with self._changed:
            for verdict in verdicts:
                card = verdict["card"]
                if verdict["kind"] == "card_ok":
                    changed = self._causes.pop(card, None) is not None
                elif verdict["class"] == "program":
                    changed = False
                else:
                    changed = self._causes.get(card) != verdict["cause"]
                    self._causes[card], self._kinds[card] = verdict["cause"], verdict["class"]
                if changed:
                    self._version += 1
                    self._changed.notify_all()
