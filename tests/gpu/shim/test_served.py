"""A service reports request latencies through the shim, and the card daemon reads them."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import gpusquad
from gpusquad.gpu.region.layout import SERVED
from tests.gpu.shim.clients import Card

_ROOT = Path(__file__).parents[3]
REPORTS = "import sys, gpusquad\nfor at in range({first}, {last}): gpusquad.served(at / 1e6)\n"


def run(card: Card, code: str, slot: int = 0) -> None:
    environment = card.of(slot) | {"PYTHONPATH": str(_ROOT / "src")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)


def test_latencies_are_returned_once_and_in_order(card: Card) -> None:
    card.attach(0)
    assert card.region.served(0, None) == (0, ())
    run(card, REPORTS.format(first=1, last=4))
    assert card.region.served(0, 0) == (3, (1, 2, 3))
    assert card.region.served(0, 3) == (3, ())
    run(card, REPORTS.format(first=40, last=42))
    assert card.region.served(0, 3) == (5, (40, 41))
    assert card.region.served(0, None) == (5, ())


def test_latest_latencies_are_returned_when_the_buffer_overflows(card: Card) -> None:
    card.attach(0)
    run(card, REPORTS.format(first=1, last=SERVED + 101))
    count, latencies_us = card.region.served(0, 0)
    assert count == SERVED + 100
    assert latencies_us == tuple(range(101, SERVED + 101))


def test_no_latency_is_lost_from_concurrent_threads_and_processes(card: Card) -> None:
    card.attach(0)
    code = (
        "import threading, gpusquad\n"
        "def report():\n    for _ in range(2000): gpusquad.served(0.001)\n"
        "threads = [threading.Thread(target=report) for _ in range(3)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]"
    )
    callers = [threading.Thread(target=run, args=(card, code)) for _ in range(3)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    count, latencies_us = card.region.served(0, 0)
    assert count == 18_000
    assert set(latencies_us) == {1000}


def test_reporting_process_takes_no_process_slot(card: Card) -> None:
    card.attach(0)
    run(card, REPORTS.format(first=1, last=2))
    page = card.region.page(0)
    assert (page.pids, page.requested_us) == ((), 0)


def test_corrupt_counts_are_limited_by_the_file(card: Card) -> None:
    card.attach(0)
    run(card, REPORTS.format(first=1, last=4))
    assert card.region.served(0, 7) == (3, ())
    with card.region.path(0).open("r+b") as file:
        file.truncate(4096)
    assert card.region.served(0, 3) == (0, ())


@pytest.mark.parametrize("seconds", [0.1, 0, -5, float("nan"), float("inf"), "soon", None])
def test_served_does_nothing_without_the_shim(seconds: object) -> None:
    gpusquad.served(seconds)  # pyright: ignore[reportArgumentType]
