"""A service says how long its requests took, by the library, and the card's daemon hears of it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import gpusquad
from gpusquad.gpu.region.layout import SERVED
from tests.gpu.shim.tenants import Card

_ROOT = Path(__file__).parents[3]
TELLS = "import sys, gpusquad\nfor at in range({first}, {last}): gpusquad.served(at / 1e6)\n"


def run(card: Card, code: str, slot: int = 0) -> None:
    environment = card.of(slot) | {"PYTHONPATH": str(_ROOT / "src")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)


def test_latencies_are_heard_of_once_each_and_in_order(card: Card) -> None:
    card.attach(0)
    assert card.region.served(0, None) == (0, ())
    run(card, TELLS.format(first=1, last=4))
    assert card.region.served(0, 0) == (3, (1, 2, 3))
    assert card.region.served(0, 3) == (3, ())
    run(card, TELLS.format(first=40, last=42))
    assert card.region.served(0, 3) == (5, (40, 41))
    assert card.region.served(0, None) == (5, ())


def test_of_more_than_there_is_room_for_the_last_ones_are_heard_of(card: Card) -> None:
    card.attach(0)
    run(card, TELLS.format(first=1, last=SERVED + 101))
    count, heard_us = card.region.served(0, 0)
    assert count == SERVED + 100
    assert heard_us == tuple(range(101, SERVED + 101))


def test_threads_and_processes_at_once_lose_none(card: Card) -> None:
    card.attach(0)
    code = (
        "import threading, gpusquad\n"
        "def tell():\n    for _ in range(2000): gpusquad.served(0.001)\n"
        "threads = [threading.Thread(target=tell) for _ in range(3)]\n"
        "[one.start() for one in threads]; [one.join() for one in threads]"
    )
    callers = [threading.Thread(target=run, args=(card, code)) for _ in range(3)]
    for one in callers:
        one.start()
    for one in callers:
        one.join()
    count, heard_us = card.region.served(0, 0)
    assert count == 18_000
    assert set(heard_us) == {1000}


def test_whoever_only_tells_takes_no_place_among_the_processes_on_the_card(card: Card) -> None:
    card.attach(0)
    run(card, TELLS.format(first=1, last=2))
    page = card.region.page(0)
    assert (page.pids, page.requested_us) == ((), 0)


def test_a_tenant_that_writes_nonsense_is_not_believed_further_than_its_file_goes(card: Card) -> None:
    card.attach(0)
    run(card, TELLS.format(first=1, last=4))
    assert card.region.served(0, 7) == (3, ())
    with card.region.path(0).open("r+b") as file:
        file.truncate(4096)
    assert card.region.served(0, 3) == (0, ())


@pytest.mark.parametrize("seconds", [0.1, 0, -5, float("nan"), float("inf"), "soon", None])
def test_without_the_library_nothing_happens_whatever_is_said(seconds: object) -> None:
    gpusquad.served(seconds)  # pyright: ignore[reportArgumentType]
