"""A simulated card and its workers, which allocate, release and run out of memory as on a real card."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CONTEXT = 10**8
GB = 10**9


@dataclass
class ToyCard:
    """Launches simulated workers. ``sizes``: bytes that each workload allocates when built, without its context."""

    sizes: dict[str, int]
    total: int = 140 * GB
    start_delay_s: float = 0.0
    names_processes: bool = True
    late: int = 0
    """Number of windows that will still be missed."""
    held: dict[str, int] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return self.total - sum(self.held.values())

    def start(self, label: str, module: str, arguments: Sequence[str], env: Mapping[str, str]) -> Any:
        return ToyChannel(self, label, arguments[0])

    def run(self, argv: Sequence[str], env: Mapping[str, str], words: str = "") -> str:
        return ""

    def close(self) -> None: ...


@dataclass
class ToyChannel:
    """Answers like a worker or the monitor."""

    card: ToyCard
    label: str
    workload: str
    answers: list[dict[str, Any]] = field(default_factory=list)

    def send(self, do: str, **request: Any) -> None:
        self.answers.append(getattr(self, f"_{do}")(**request))

    def answer(self, until_s: float) -> dict[str, Any]:
        return self.answers.pop(0)

    def ask(self, do: str, timeout_s: float, **request: Any) -> dict[str, Any]:
        self.send(do, **request)
        return self.answer(0)

    def wait(self, until_s: float) -> None: ...

    def close(self, *, gracefully: bool = True) -> None:
        self.card.held.pop(self.label, None)

    @property
    def _pid(self) -> int:
        return sum(map(ord, self.label))

    def _hello(self) -> dict[str, Any]:
        if self.label != "monitor":
            self.card.held[self.label] = CONTEXT
        card = {"gpu": "Toy", "driver": "1", "total_bytes": self.card.total}
        return {"pid": self._pid, "now_s": time.monotonic(), **card}

    def _build(self) -> dict[str, Any]:
        size = self.card.sizes[self.workload]
        self.card.held[self.label] = CONTEXT
        if size > self.card.free:
            return {"out_of_memory": True}
        self.card.held[self.label] += size
        return {"out_of_memory": False, "reserved_bytes": size}

    def _park(self) -> dict[str, Any]:
        self.card.held[self.label] = CONTEXT
        return {}

    def _run(self, **window: Any) -> dict[str, Any]:
        assert self.card.held[self.label] > CONTEXT
        if self.card.late:
            self.card.late -= 1
            return {"out_of_memory": False, "late": True}
        return {"out_of_memory": False, "steps": 10.0}

    def _quit(self) -> dict[str, Any]:
        return {}

    def _memory(self) -> dict[str, Any]:
        names = {str(sum(map(ord, label))): held for label, held in self.card.held.items() if label != "monitor"}
        used = self.card.total - self.card.free
        return {"used_bytes": used, "by_process": names if self.card.names_processes else {}}

    def _room(self, free_bytes: int) -> dict[str, Any]:
        self.card.held["monitor"] = 0
        if free_bytes >= 0:
            self.card.held["monitor"] = max(0, self.card.free - free_bytes)
        return {"free_bytes": self.card.free, "held_bytes": self.card.held["monitor"]}

    def _watch(self, from_s: float, to_s: float) -> dict[str, Any]:
        return {"utilisation_ratio": 1.0, "bandwidth_ratio": 0.5, "power_w": 300.0, "counters": {}}
