"""Random programs for players without races, so that every correct driver gives the same result.

The order of steps follows CUDA's rules: order within a stream, events, waits, and the legacy default stream, which runs
before and after all work in blocking streams. A step uses a cell only if all earlier uses of it are ordered before. So
each program depends on every ordering rule, and its result is that of a serial execution.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

Step = list[Any]
Clock = dict[str, int]
BLOCKING = ("b0", "b1", "thread")
FREE = ("f0", "f1")
STREAMS = ("legacy", *BLOCKING, *FREE)
CELLS = 6
LAUNCHES = ("plain", "ex", "cooperative")


def join(into: Clock, other: Clock) -> None:
    for name, count in other.items():
        into[name] = max(into.get(name, 0), count)


def is_before(earlier: Clock, later: Clock) -> bool:
    return all(later.get(name, 0) >= count for name, count in earlier.items())


@dataclass
class Writer:
    """Writes a program and computes its result."""

    dice: random.Random
    longest_us: int
    grants: tuple[dict[str, Any], ...]
    steps: list[Step] = field(default_factory=list)
    cells: list[int] = field(default_factory=lambda: [0] * CELLS)
    seen: list[Any] = field(default_factory=list)
    clocks: dict[str, Clock] = field(default_factory=lambda: {name: {} for name in STREAMS})
    touched: list[Clock] = field(default_factory=lambda: [{} for _ in range(CELLS)])
    events: dict[str, Clock] = field(default_factory=dict)
    host: Clock = field(default_factory=dict)
    taken: int = 0
    births: dict[str, int] = field(default_factory=dict)
    gone: list[Clock] = field(default_factory=list)
    """Blocking streams that ended with pending work: the legacy stream still runs after it."""

    def _reach(self, stream: str) -> Clock:
        """Return what a new step on the stream runs after."""
        reach = dict(self.clocks[stream])
        join(reach, self.host)
        if stream == "legacy":
            for clock in (*(self.clocks[name] for name in BLOCKING), *self.gone):
                join(reach, clock)
        elif stream not in FREE:
            join(reach, self.clocks["legacy"])
        return reach

    def _born(self, stream: str) -> int:
        """Number of streams that had this name before: each is another stream."""
        return self.births.get(stream, 0)

    def _take(self, stream: str) -> Clock:
        clock = self._reach(stream)
        self.taken += 1
        clock[f"{stream} {self._born(stream)}"] = self.taken
        self.clocks[stream] = clock
        return clock

    def _cells_for(self, stream: str, count: int) -> list[int]:
        reach = self._reach(stream)
        allowed = [cell for cell in range(CELLS) if is_before(self.touched[cell], reach)]
        return self.dice.sample(allowed, count) if len(allowed) >= count else []

    def _touch(self, stream: str, *cells: int) -> None:
        clock = self._take(stream)
        for cell in cells:
            self.touched[cell] = clock

    def _kernel(self, stream: str) -> None:
        for cell in self._cells_for(stream, 1):
            name = self.dice.choice(("add", "copy2"))
            self._touch(stream, cell)
            self.cells[cell] = _after(name, self.cells[cell])
            self.steps.append(
                ["kernel", stream, cell, name, self.dice.randrange(self.longest_us), self.dice.choice(LAUNCHES)]
            )

    def _set(self, stream: str) -> None:
        for cell in self._cells_for(stream, 1):
            how = self.dice.choice(("set", "put", "set_now") if stream in ("legacy", "thread") else ("set", "put"))
            self._touch(stream, cell)
            self.cells[cell] = self.dice.randrange(1000)
            self.steps.append([how, stream, cell, self.cells[cell]])

    def _copy(self, stream: str) -> None:
        pair = self._cells_for(stream, 2)
        if pair:
            how = self.dice.choice(("copy", "copy_now") if stream in ("legacy", "thread") else ("copy",))
            self._touch(stream, *pair)
            self.cells[pair[0]] = self.cells[pair[1]]
            self.steps.append([how, stream, *pair])

    def _read(self, _: str) -> None:
        for cell in self._cells_for("legacy", 1):
            self._touch("legacy", cell)
            self.seen.append(self.cells[cell])
            self.steps.append([self.dice.choice(("read", "fetch")), "legacy", cell])
            join(self.host, self.clocks["legacy"])

    def _record(self, stream: str) -> None:
        event = self.dice.choice("xyz")
        self.events[event] = dict(self._take(stream))
        self.steps.append(["record", event, stream])

    def _wait(self, stream: str) -> None:
        if self.events:
            event = self.dice.choice(sorted(self.events))
            self._take(stream)
            join(self.clocks[stream], self.events[event])
            self.steps.append(["wait", stream, event])

    def _wait_stream(self, stream: str) -> None:
        join(self.host, self._reach(stream) if stream == "legacy" else self.clocks[stream])
        self.steps.append(["wait_stream", stream])

    def _sync(self, _: str) -> None:
        for clock in (*self.clocks.values(), *self.gone, *self.touched):
            join(self.host, clock)
        self.steps.append(["sync"])

    def _graph(self, stream: str) -> None:
        for cell in self._cells_for(stream, 1):
            if cell in (0, 1):
                self._touch(stream, cell)
                self.cells[cell] = _after("add", _after("copy2", self.cells[cell]))
                self.steps.append(["graph", stream, f"g{cell}"])

    def _move(self, _: str) -> None:
        self.steps.append(["grant", self.dice.choice(self.grants)])

    def _visit(self, _: str) -> None:
        """A new thread uses its own default stream and ends."""
        name = f"visitor {len(self.gone)}"
        self.clocks[name] = {}
        for cell in self._cells_for(name, 1):
            self._touch(name, cell)
            self.cells[cell] = _after("copy2", self.cells[cell])
            launch = ["kernel", "thread", cell, "copy2", self.dice.randrange(self.longest_us)]
            self.steps.append(["in_thread", [launch]])
        self.gone.append(self.clocks[name])

    def _renew(self, _: str) -> None:
        """Destroy a stream, whose work may still run, and create another."""
        name = self.dice.choice(("b0", "f1"))
        self.steps += [["destroy", name], ["stream", name, name in BLOCKING]]
        if name in BLOCKING:
            self.gone.append(self.clocks[name])
        self.clocks[name] = {}
        self.births[name] = self._born(name) + 1

    def write(self, length: int) -> None:
        self.steps += [["stream", name, name in BLOCKING] for name in ("b0", "b1", *FREE)]
        for cell in (0, 1):
            inside: list[Step] = [["kernel", "f0", cell, "copy2", 20], ["kernel", "f0", cell, "add", 10]]
            self.steps.append(["capture", f"g{cell}", "f0", inside])
        ways = {
            self._kernel: 12, self._set: 3, self._copy: 3, self._read: 1, self._record: 3, self._wait: 3,
            self._wait_stream: 1, self._sync: 0.3, self._graph: 3, self._move: 3, self._visit: 1, self._renew: 0.7,
        }  # fmt: skip
        while len(self.steps) < length:
            way = self.dice.choices(list(ways), list(ways.values()))[0]
            way(self.dice.choice(STREAMS))


def _after(name: str, value: int) -> int:
    return (value + 1 if name == "add" else value * 3 + 1) & 0xFFFFFFFF


def random_program(seed: int, length: int, grants: tuple[dict[str, Any], ...], longest_us: int = 120) -> Writer:
    writer = Writer(random.Random(seed), longest_us, grants)
    writer.write(length)
    return writer
