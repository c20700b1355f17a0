"""Queued work of a client pauses on the card while clients on its yield list are busy. Its threads do not wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

import pytest

from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.clients import Card, standin_only
from tests.gpu.shim.players import Player, Step, fake_client, kill_fake_client, make_busy, player, process_page, until
from tests.gpu.shim.random_programs import CELLS, random_program

COUNT = 40
WORK: list[Step] = [["kernels", COUNT, "legacy", 0, "add", 200]]
FOREVER_MS = 3600 * 1000
YIELDS = Grant(neighbours=0b11, yield_to=0b10, yield_max_ms=FOREVER_MS)


def staged(card: Card) -> Player:
    card.attach(0)
    card.attach(1)
    client = player(card)
    client.stage()
    return client


def paused_client(card: Card) -> Player:
    """A client with queued work that is paused."""
    client = staged(card)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    client.on_stage(WORK)  # returns: no thread is held
    assert_paused(card, client)
    return client


def assert_paused(card: Card, client: Player) -> None:
    """Another client, which yields to none, completes the same work while this one is paused."""
    if 2 not in card.region.attached:
        card.attach(2)
    other = player(card, 2)
    assert other.play([*WORK, ["sync"]])["cells"][0] == COUNT
    assert not client("stage.is_done('legacy')")


def until_done(client: Player) -> None:
    until(lambda: client("stage.is_done('legacy')"), "all that was queued")


def test_queued_work_pauses_while_a_neighbour_is_busy_and_continues_by_itself(card: Card) -> None:
    client = paused_client(card)
    launches = process_page(card).launches
    assert launches == COUNT
    make_busy(card, 1, in_flight=0)
    until_done(client)
    assert client("stage.cells()")[0] == COUNT
    assert process_page(card).waits == 0


def test_queued_work_pauses_repeatedly(card: Card) -> None:
    client = paused_client(card)
    for _ in range(2):
        make_busy(card, 1, in_flight=0)
        until_done(client)
        make_busy(card, 1, in_flight=1)
        client.on_stage(WORK)
        assert_paused(card, client)
    make_busy(card, 1, in_flight=0)
    client.on_stage([["sync"]])
    assert client("stage.cells()")[0] == 3 * COUNT


def test_untimed_kernel_pauses(card: Card) -> None:
    """It may be long."""
    client = staged(card)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    client.on_stage([["kernel", "legacy", 0, "add_long"]])
    assert_paused(card, client)


def test_work_pauses_only_for_clients_on_the_yield_list(card: Card) -> None:
    client = staged(card)
    card.attach(2)
    make_busy(card, 2, in_flight=1)
    make_busy(card, 1, in_flight=0)
    card.region.write({0: replace(YIELDS, neighbours=0b111)})
    client.on_stage([*WORK, ["sync"]])
    assert client("stage.cells()")[0] == COUNT


def test_graph_pauses_as_one_launch(card: Card) -> None:
    client = staged(card)
    client.on_stage([["stream", "s", False], ["capture", "g", "s", [["kernels", 5, "s", 0, "add", 300]]]])
    client.on_stage([["graph", "s", "g"], ["sync"]] * 4)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    client.on_stage([["graph", "s", "g"]])
    assert not client("stage.is_done('s')")
    make_busy(card, 1, in_flight=0)
    client.on_stage([["sync"]])
    assert client("stage.cells()")[0] == 25


def test_paused_work_continues_when_the_grant_changes(card: Card) -> None:
    client = paused_client(card)
    card.region.write({0: Grant(neighbours=0b11)})
    until_done(client)


def test_paused_work_continues_when_the_daemon_is_gone(card: Card) -> None:
    client = paused_client(card)
    card.region._decisions.fail_open_ms = 1
    card.region.beat(time.clock_gettime_ns(time.CLOCK_MONOTONIC) - 10**9)
    until_done(client)


def test_process_exits_while_its_work_is_paused(card: Card) -> None:
    assert paused_client(card).end() == ""


def test_context_is_reset_while_its_work_is_paused(card: Card) -> None:
    """Work of the next context pauses as well."""
    client = paused_client(card)
    assert client("cuda.cuDevicePrimaryCtxReset_v2(0)") == 0
    make_busy(card, 1, in_flight=0)
    client.stage()
    make_busy(card, 1, in_flight=1)
    client.on_stage(WORK)
    assert_paused(card, client)
    make_busy(card, 1, in_flight=0)
    until_done(client)


def test_work_of_a_destroyed_stream_continues(card: Card) -> None:
    """The end of work on a destroyed stream is not observed, so it must not stay paused."""
    client = staged(card)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    client.on_stage([["stream", "s", False], ["kernels", COUNT, "s", 0, "add", 200]])
    assert not client("stage.is_done('s')")
    client.on_stage([["destroy", "s"]])
    assert client("stage.cells()")[0] == COUNT


def test_context_ends_with_its_last_release_while_its_work_is_paused(card: Card) -> None:
    client = paused_client(card)
    client("call('cuDevicePrimaryCtxRelease_v2', 0)")
    assert process_page(card).in_flight == 0


def test_work_stays_paused_when_a_release_is_not_the_last(card: Card) -> None:
    client = paused_client(card)
    client("call('cuDevicePrimaryCtxRetain', byref(c_void_p()), 0)")
    client("call('cuDevicePrimaryCtxRelease_v2', 0)")
    client.on_stage(WORK)  # more than has passed in between
    assert_paused(card, client)


def test_paused_work_continues_when_the_neighbour_is_killed(card: Card) -> None:
    """Its page still reports work until its memory is reclaimed."""
    client = paused_client(card)
    kill_fake_client(card, 1)
    until_done(client)
    assert process_page(card, 1).in_flight == 1


def test_one_client_runs_when_two_yield_to_each_other(card: Card) -> None:
    """This may happen by mistake, or while the daemon writes."""
    card.attach(0)
    card.attach(1)
    clients = [player(card, slot) for slot in (0, 1)]
    for client in clients:
        client.stage()
    card.region.write({slot: replace(YIELDS, yield_to=0b11) for slot in (0, 1)})
    for _ in range(3):
        for client in clients:
            client.on_stage(WORK)
        for client in clients:
            until_done(client)


def test_paused_work_continues_after_the_longest_pause(card: Card) -> None:
    """The other client may hang, or wait for this very work in a way that the shim does not see."""
    client = staged(card)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: replace(YIELDS, yield_max_ms=50)})
    client.on_stage([*WORK, ["sync"]])
    assert client("stage.cells()")[0] == COUNT


@standin_only("a real driver may refuse work for a stream of a context that is not current")
def test_pause_word_belongs_to_the_context_that_waits_for_it(card: Card) -> None:
    """Work is launched for one context while another is current. The other then ends, and its memory with it."""
    client = staged(card)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    client.on_stage([["stream", "s", False]])
    client("c_void_p()", keep="other")
    client("call('cuCtxCreate_v2', byref(other), c_uint(0), 0)")
    client.on_stage([["set", "s", 0, 7]] * 50)
    client("stage.enter()")
    client("call('cuCtxDestroy_v2', other)")
    client.on_stage([["kernels", COUNT, "s", 1, "add", 200]])
    assert not client("stage.is_done('s')")
    make_busy(card, 1, in_flight=0)
    assert client("stage.cells()")[:2] == [7, COUNT]


def test_second_context_continues_while_work_of_the_first_is_paused(card: Card) -> None:
    client = staged(card)
    client("c_void_p()", keep="other")
    client("c_uint64()", keep="there")
    client("call('cuCtxCreate_v2', byref(other), c_uint(0), 0)")
    client("call('cuMemAlloc_v2', byref(there), c_size_t(4))")
    client("stage.enter()")
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    client.on_stage(WORK)
    client("call('cuCtxSetCurrent', other)")
    client("[call('cuMemsetD32Async', there, c_uint(number), c_size_t(1), None) for number in range(100)]")
    until(lambda: client("cuda.cuStreamQuery(None)") == 0)
    client("stage.enter()")
    assert not client("stage.is_done('legacy')")
    client("call('cuCtxDestroy_v2', other)")  # the driver then waits for all contexts
    make_busy(card, 1, in_flight=0)
    until_done(client)
    assert client("stage.cells()")[0] == COUNT


def test_forked_child_does_not_change_the_pause_word(card: Card) -> None:
    """It attaches as a process of its own and exits normally."""
    client = paused_client(card)
    child = "(cuda.cuCtxSynchronize(), ctypes.CDLL(None).exit(0))"
    assert client(f"os.waitpid(os.fork() or {child}, 0)[1]") == 0
    assert not client("stage.is_done('legacy')")
    make_busy(card, 1, in_flight=0)
    until_done(client)
    assert client.end() == ""


@contextmanager
def alternately_busy(card: Card, slot: int) -> Iterator[None]:
    over, page = threading.Event(), fake_client(card, slot)

    def keep_changing() -> None:
        while not over.wait(0.001):
            page.in_flight = 1 - page.in_flight
        page.in_flight = 0

    changing = threading.Thread(target=keep_changing)
    changing.start()
    try:
        yield
    finally:
        over.set()
        changing.join()


@pytest.mark.parametrize("queue", ["1024", "8"])
def test_random_programs_give_the_same_result_while_paused_repeatedly(card: Card, queue: str) -> None:
    """Also with a short driver queue that blocks the caller until its work continues."""
    card.attach(0)
    card.attach(1)
    client = player(card, STANDIN_QUEUE=queue)
    grants = [replace(YIELDS, mask=mask, yield_point_us=1) for mask in (0, 0x01, 0xF0)] + [Grant(neighbours=0b11)]
    with alternately_busy(card, 1):
        for seed in range(5):
            program = random_program(seed, 150, tuple(asdict(grant) for grant in grants))
            assert client.play(program.steps, CELLS) == {"cells": program.cells, "seen": program.seen}, f"seed {seed}"
    assert client.end() == ""


@pytest.mark.parametrize("stands", [False, True], ids=["running", "paused_client"])
def test_neighbour_results_are_exact_when_a_client_is_killed(card: Card, stands: bool) -> None:
    """The client is killed during its kernels. Its neighbour's results are exact and its memory is released."""
    client = staged(card)
    card.attach(2)
    neighbour = player(card, 2)
    neighbour.stage()
    work: list[Step] = [["kernels", 400, "legacy", 0, "add", 200], ["kernel", "legacy", 0, "copy2", 200]]
    make_busy(card, 1, in_flight=int(stands))
    card.region.write({0: YIELDS, 2: Grant(neighbours=0b111)})
    neighbour.on_stage(work)
    client.on_stage([["kernels", 100, "legacy", 0, "add_long"]])
    assert process_page(card).in_flight >= 1
    assert card.used(0) > 0
    client.kill()
    assert neighbour("stage.cells()")[0] == 3 * 400 + 1
    neighbour.on_stage(work)
    assert neighbour("stage.cells()")[0] == 3 * (3 * 400 + 1 + 400) + 1
    until(lambda: card.region.reclaim(0) > 0 or card.used(0) == 0, "the end of the killed process")
    assert card.used(0) == 0
    make_busy(card, 1, in_flight=0)
    assert player(card).play([*WORK, ["sync"]])["cells"][0] == COUNT
