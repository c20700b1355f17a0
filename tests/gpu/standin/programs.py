"""Programs for several tests on a stand-in card, and their results."""

from __future__ import annotations

from tests.gpu.standin.client import Line
from tests.gpu.standin.running import Card

GIB = 1 << 30
LOOP = """
c = Cuda()
send("ready")
receive()
for _ in range({count}):
    c.launch("{kernel}")
c.sync()
"""
HOLD = """
c = Cuda()
c.alloc({size})
send(c.memory()[0])
receive()
"""


def run_loop(card: Card, kernel: str, count: int = 20, **environment: str) -> list[Line]:
    with card.start(LOOP.format(count=count, kernel=kernel), **environment) as program:
        program.resume()
        program.finish()
        return card.lines(pid=program.pid)


def mean_us(lines: list[Line]) -> float:
    return sum(line.ended_us - line.started_us for line in lines) / len(lines)


def in_order(calls: str) -> int:
    """The value of 1 after these calls in order: "a" adds one, "c" computes 3 x + 1."""
    value = 1
    for call in calls:
        value = value + 1 if call == "a" else value * 3 + 1
    return value
