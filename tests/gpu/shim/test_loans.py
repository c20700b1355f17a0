"""A client without credit borrows while all neighbours are idle, one loan at a time."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.clients import Card
from tests.gpu.shim.gate_clients import UNKNOWN_US, begin, requested_us, staged, until_held
from tests.gpu.shim.players import Step, fake_client, kill_fake_client, make_busy, process_page, until


def longest_us(card: Card, slot: int = 0) -> float:
    """Predicted time of the longest known kernel."""
    return max([UNKNOWN_US, *(kernel.mean_us for kernel in card.region.kernels(slot))])


def test_client_borrows_while_all_neighbours_are_idle(card: Card) -> None:
    client = staged(card)
    card.attach(1)
    card.attach(2)
    make_busy(card, 1, in_flight=0)
    card.region.write({0: Grant(credit_us=0, neighbours=0b111, borrows=True)})
    client.on_stage([["kernels", 5, "legacy", 0, "add", 20]])
    make_busy(card, 2, in_flight=3)
    begin(client, [["kernels", 5, "legacy", 0, "add", 20]])
    until_held(card)
    make_busy(card, 2, in_flight=0)  # without a new decision of the daemon
    client.answer()
    assert requested_us(card) > 0


def test_neighbour_is_not_idle_while_it_waits_at_the_gate(card: Card) -> None:
    client = staged(card)
    card.attach(1)
    beside = fake_client(card, 1)
    beside.waiting = 1
    card.region.write({0: Grant(credit_us=0, neighbours=0b11, borrows=True)})
    begin(client, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    beside.waiting = 0
    client.answer()


@pytest.mark.parametrize("since", ["last_launch_ns", "idle_since_ns"])
def test_neighbour_counts_as_busy_for_linger_us_after_its_last_work(card: Card, since: str) -> None:
    """Short pauses between kernels and between requests are not lent."""
    client = staged(card)
    card.attach(1)
    beside, long_us = fake_client(card, 1), 2**32 - 1
    now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    beside.last_launch_ns = beside.idle_since_ns = now_ns - 1000 * (long_us + 1)  # the machine may be younger
    setattr(beside, since, now_ns)
    card.region.write({0: Grant(credit_us=0, neighbours=0b11, borrows=True, linger_us=long_us)})
    begin(client, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    setattr(beside, since, getattr(beside, since) - 1000 * (long_us + 1))
    client.answer()


def test_client_does_not_borrow_without_the_flag(card: Card) -> None:
    client = staged(card)
    card.attach(1)
    card.region.write({0: Grant(credit_us=0, neighbours=0b11)})
    begin(client, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    card.region.write({0: Grant(credit_us=0, neighbours=0b11, borrows=True)})
    client.answer()


def test_borrower_has_at_most_a_loan_queued(card: Card) -> None:
    """So that the borrower can stop soon."""
    client = staged(card)
    card.attach(1)
    client.on_stage([["kernels", 4, "legacy", 0, "add_long"], ["sync"], ["kernel", "legacy", 0, "add_long"], ["sync"]])
    card.region.write({0: Grant(credit_us=0, neighbours=0b11, borrows=True)})
    client.on_stage([["kernels", 4, "legacy", 0, "add_long"]])
    assert process_page(card).waits >= 3
    assert process_page(card).requested_us - process_page(card).completed_us < 2.5 * longest_us(card)


def test_loan_has_the_size_of_the_grant(card: Card) -> None:
    """A neighbour that gets work again does not notice short loans. Only the loan lets the client continue here."""
    client = staged(card)
    card.attach(1)
    learn: list[Step] = [["kernel", "legacy", 0, "add", 100], ["sync"]]
    client.on_stage(learn * 5)
    (known,) = card.region.kernels(0)
    assert known.mean_us < 1000, "the card is far too slow for this test"
    loan_us = int(3 * known.mean_us) + 10
    forever_us = 3600 * 10**6
    card.region.write({0: Grant(0, 0, 0, 0, 0b11, 0, True, loan_us, forever_us)})
    begin(client, [["kernels", 100, "legacy", 0, "add", 100]])
    page, most_us = process_page(card), 0
    until(lambda: page.launches >= 5 + 50, "half of it")
    while page.launches < 5 + 100:
        requested_us = page.requested_us  # read first: completed work was requested before
        most_us = max(most_us, requested_us - page.completed_us)
    client.answer()
    assert page.waits >= 5
    assert most_us <= max(loan_us, 2 * longest_us(card))


def test_borrower_passes_after_the_longest_wait_when_its_queue_does_not_drain(card: Card) -> None:
    """The queue may be waiting for this very launch."""
    client = staged(card)
    card.attach(1)
    client.on_stage([["stream", "s", False], ["stream", "t", False], ["kernel", "t", 1, "add", 0], ["sync"]])
    card.region.write({0: Grant(0, 0, 0, 0, 0b11, 0, True, 1, 1000)})
    begin(client, [["await_value", "s", 2, 7], ["kernel", "s", 0, "add", 0], ["set", "t", 2, 7], ["sync"]])
    client.answer()
    assert client("stage.cells()")[:3] == [1, 1, 7]
    assert process_page(card).waited_ns >= 1_000_000


def test_client_survives_when_a_neighbour_truncates_its_file(card: Card) -> None:
    """A reader neither crashes nor leaks descriptors. A neighbour that cannot be read counts as busy."""
    client = staged(card)
    card.attach(1)
    card.region.write({0: Grant(credit_us=0, neighbours=0b11, borrows=True)})
    client.on_stage([["kernels", 5, "legacy", 0, "add", 20]])
    files = Path(f"/proc/{client.process.pid}/fd")
    opened = len(list(files.iterdir()))
    content = card.region.path(1).read_bytes()
    os.truncate(card.region.path(1), 100)
    begin(client, [["kernels", 5, "legacy", 0, "add", 20]])
    until_held(card)
    for _ in range(500):  # it reads the file repeatedly
        assert len(list(files.iterdir())) <= opened + 1
    assert client.process.poll() is None
    with card.region.path(1).open("r+b") as file:
        file.write(content)
    client.answer()
    assert client("stage.cells()")[0] == 10


def test_killed_neighbour_counts_as_idle(card: Card) -> None:
    client = staged(card)
    card.attach(1)
    make_busy(card, 1, in_flight=3)
    card.region.write({0: Grant(credit_us=0, neighbours=0b11, borrows=True)})
    begin(client, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    kill_fake_client(card, 1)
    client.answer()
