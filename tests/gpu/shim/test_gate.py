"""Clients wait for credit, share it, and run ungated when the daemon is gone."""

from __future__ import annotations

import time

import pytest

from gpusquad.gpu.region.card_region import CardRegion
from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.clients import Card
from tests.gpu.shim.gate_clients import UNKNOWN_US, begin, requested_us, staged, until_held
from tests.gpu.shim.players import Step, player, process_page, until

FOREVER_NS = 3600 * 10**9
SECOND_NS = 10**9
"""An earlier time may lie before the boot of the machine, which its clock cannot express."""


def untimed_kernels(first: int, count: int, stream: str = "legacy") -> list[Step]:
    """Kernels of different shapes, so that each has the assumed time of an untimed kernel."""
    return [["kernel", stream, 0, "add", 0, "plain", grid] for grid in range(first, first + count)]


def test_requested_time_never_exceeds_the_credit(card: Card) -> None:
    client = staged(card)
    first = 1
    for launches in (5, 12, 40):
        limit_us = requested_us(card) + launches * UNKNOWN_US + UNKNOWN_US // 2
        card.region.write({0: Grant(credit_us=limit_us)})
        begin(client, untimed_kernels(first, launches + 3))
        until_held(card)
        assert requested_us(card) == limit_us - UNKNOWN_US // 2
        card.region.write({0: Grant()})
        client.answer()
        first += launches + 3


def test_held_client_continues_when_it_gets_more_credit(card: Card) -> None:
    client = staged(card)
    card.region.write({0: Grant(credit_us=100)})
    begin(client, [["kernels", 200, "legacy", 0, "add", 20]])
    until_held(card)
    held_at = card.region.page(0).launches
    card.region.write({0: Grant(credit_us=requested_us(card) + 10**6)})
    client.answer()
    page = process_page(card)
    assert held_at < 200 <= page.launches
    assert page.waiting == 0
    assert page.waits >= 1
    assert page.waited_ns > 0


@pytest.mark.parametrize(
    "step",
    [
        ["kernel", "legacy", 0, "add", 20],
        ["kernel", "thread", 0, "add", 20],
        ["kernel", "own", 0, "add", 20],
        ["kernel", "legacy", 0, "add", 20, "ex"],
        ["kernel", "thread", 0, "add", 20, "cooperative"],
        ["set", "legacy", 0, 1],
        ["copy", "own", 0, 1],
        ["put", "thread", 0, 1],
        ["graph", "legacy", "g"],
    ],
    ids=lambda step: " ".join(str(part) for part in step[:2]),
)
def test_every_kind_of_work_is_held_without_credit(card: Card, step: Step) -> None:
    client = staged(card)
    card.region.write({0: Grant(credit_us=0)})
    capture: Step = ["capture", "g", "own", [["kernel", "own", 0, "add", 20]]]
    client.on_stage([["stream", "own", False], capture])  # capturing is never held
    begin(client, [step])
    until_held(card)
    card.region.write({0: Grant()})
    client.answer()


def test_launch_larger_than_the_credit_passes_and_leaves_a_debt(card: Card) -> None:
    client = staged(card)
    client.on_stage([["kernels", 4, "legacy", 0, "add_long"], ["sync"], ["kernel", "legacy", 0, "add_long"]])
    (long,) = card.region.kernels(0)
    assert long.mean_us > 4000
    before_us = requested_us(card)
    card.region.write({0: Grant(credit_us=before_us + 1000)})
    client.on_stage([["kernel", "legacy", 0, "add_long"]])
    assert requested_us(card) > before_us + 4000
    card.region.write({0: Grant(credit_us=before_us + 2000)})  # another squad, but the client is in debt
    begin(client, [["kernel", "legacy", 0, "add_short"]])
    until_held(card)
    card.region.write({0: Grant()})
    client.answer()


def test_graph_is_one_launch_and_its_time_is_measured(card: Card) -> None:
    client = staged(card)
    inside: list[Step] = [["kernel", "s", 0, "add_long"] for _ in range(2)]
    client.on_stage([["stream", "s", False], ["capture", "g", "s", inside]])
    assert card.region.page(0).launches == 0
    for _ in range(3):
        client.on_stage([["graph", "s", "g"], ["sync"]])
    client.on_stage([["graph", "s", "g"], ["sync"], ["graph", "s", "g"]])
    (graph,) = card.region.kernels(0)
    assert (graph.name, process_page(card).graphs, process_page(card).launches) == ("graph", 5, 0)
    assert graph.mean_us > 8000


def test_requested_time_continues_in_a_reused_slot(card: Card) -> None:
    """Credit is cumulative: a restarted process must not get the credit of the last one again."""
    first = staged(card)
    first.on_stage(untimed_kernels(1, 20))
    before_us = requested_us(card)
    assert before_us >= 20 * UNKNOWN_US
    first.kill()
    card.region.reclaim(0)
    second = player(card)
    second.stage()
    card.region.write({0: Grant(credit_us=before_us + 2 * UNKNOWN_US)})
    begin(second, untimed_kernels(100, 5))
    until_held(card)
    assert requested_us(card) == before_us + 2 * UNKNOWN_US
    card.region.write({0: Grant()})
    second.answer()


def open_again(card: Card, fail_open_ms: int) -> None:
    card.region = CardRegion(card.region.folder, groups=8, sms_per_group=8, fail_open_ms=fail_open_ms)


def test_client_runs_ungated_while_the_daemon_is_gone(card: Card) -> None:
    client = staged(card)
    open_again(card, fail_open_ms=50)
    card.region.beat(time.monotonic_ns() + FOREVER_NS)
    card.region.write({0: Grant(credit_us=0, mask=0x01)})
    begin(client, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    card.region.beat(time.monotonic_ns() - SECOND_NS)  # without a message: the heartbeat only gets old
    client.answer()
    client.on_stage([["kernels", 50, "legacy", 0, "add", 20]])
    assert process_page(card).mask_now == 0
    card.region.beat(time.monotonic_ns() + FOREVER_NS)
    begin(client, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    card.region.write({0: Grant()})
    client.answer()


def test_client_waits_for_the_daemon_without_fail_open(card: Card) -> None:
    client = staged(card)
    card.region.beat(time.monotonic_ns() - SECOND_NS)
    card.region.write({0: Grant(credit_us=0)})
    begin(client, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    card.region.write({0: Grant(credit_us=UNKNOWN_US)})
    client.answer()


def test_held_client_continues_when_it_is_detached(card: Card) -> None:
    client = staged(card)
    card.region.write({0: Grant(credit_us=0)})
    begin(client, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    card.region.detach(0)
    client.answer()


def test_processes_of_a_client_share_its_credit(card: Card) -> None:
    first = staged(card)
    card.region.write({0: Grant(credit_us=3 * UNKNOWN_US)})
    first.on_stage(untimed_kernels(1, 2))
    second = player(card)
    second.stage()
    begin(second, untimed_kernels(10, 5))
    until(lambda: process_page(card, index=1).waiting == 1, "the second process at the gate")
    assert requested_us(card) == 3 * UNKNOWN_US
    card.region.write({0: Grant()})
    second.answer()


def test_threads_share_the_last_credit(card: Card) -> None:
    client = staged(card)
    card.region.write({0: Grant(credit_us=10 * UNKNOWN_US)})
    begin(client, [["together", [untimed_kernels(1 + 20 * number, 20, "thread") for number in range(4)]]])
    until(lambda: process_page(card).waiting == 4, "four threads at the gate")
    assert requested_us(card) == 10 * UNKNOWN_US
    card.region.write({0: Grant()})
    client.answer()


def test_parent_is_unaffected_by_a_forked_child_that_launches_nothing(card: Card) -> None:
    client = staged(card)
    card.attach(1)
    card.region.write({0: Grant(mask=0x01, neighbours=0b11)})
    client.on_stage([["kernels", 10, "legacy", 0, "add", 20]])
    assert client("os.waitpid(os.fork() or os._exit(0), 0)[1]") == 0
    client.on_stage([["kernels", 10, "legacy", 0, "add", 20]])
    assert client("stage.cells()")[0] == 20
    assert client.end() == ""
