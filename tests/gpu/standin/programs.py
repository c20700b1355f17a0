"""Programs that several tests run on a stand-in card, and what comes of them."""

from __future__ import annotations

from tests.gpu.standin.client import Line
from tests.gpu.standin.running import Card

GIB = 1 << 30
LOOP = """
c = Cuda()
tell("ready")
hear()
for _ in range({count}):
    c.launch("{kernel}")
c.sync()
"""
HOLD = """
c = Cuda()
c.alloc({size})
tell(c.memory()[0])
hear()
"""


def run_loop(card: Card, kernel: str, count: int = 20, **environment: str) -> list[Line]:
    with card.start(LOOP.format(count=count, kernel=kernel), **environment) as program:
        program.go_on()
        program.finish()
        return card.lines(pid=program.pid)


def mean_us(lines: list[Line]) -> float:
    return sum(line.ended_us - line.started_us for line in lines) / len(lines)


def in_order(calls: str) -> int:
    """What "a" (add one) and "c" (times three plus one) make of 1, in this order."""
    value = 1
    for call in calls:
        value = value + 1 if call == "a" else value * 3 + 1
    return value
