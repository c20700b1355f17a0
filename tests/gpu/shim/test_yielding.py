"""What a tenant has queued stands still on the card while those that go first are busy; its callers do not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace

import pytest

from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.playing import Player, Step, die, make_busy, mate, player, process_page, until
from tests.gpu.shim.programs import CELLS, written
from tests.gpu.shim.tenants import Card, standin_only

COUNT = 40
WORK: list[Step] = [["kernels", COUNT, "legacy", 0, "add", 200]]
FOREVER_MS = 3600 * 1000
YIELDS = Grant(neighbours=0b11, yield_to=0b10, yield_max_ms=FOREVER_MS)


def staged(card: Card) -> Player:
    card.attach(0)
    card.attach(1)
    tenant = player(card)
    tenant.stage()
    return tenant


def standing(card: Card) -> Player:
    """A tenant whose work is queued, and stands still."""
    tenant = staged(card)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    tenant.on_stage(WORK)  # returns: nobody is held
    stands_still(card, tenant)
    return tenant


def stands_still(card: Card, tenant: Player) -> None:
    """Somebody else, who yields to nobody, has done the same meanwhile."""
    if 2 not in card.region.attached:
        card.attach(2)
    other = player(card, 2)
    assert other.play([*WORK, ["sync"]])["cells"][0] == COUNT
    assert not tenant("stage.is_done('legacy')")


def until_done(tenant: Player) -> None:
    until(lambda: tenant("stage.is_done('legacy')"), "all that was queued")


def test_stands_still_while_the_mate_is_busy_and_goes_on_without_a_word_of_anybody(card: Card) -> None:
    tenant = standing(card)
    launches = process_page(card).launches
    assert launches == COUNT
    make_busy(card, 1, in_flight=0)
    until_done(tenant)
    assert tenant("stage.cells()")[0] == COUNT
    assert process_page(card).waits == 0


def test_again_and_again(card: Card) -> None:
    tenant = standing(card)
    for _ in range(2):
        make_busy(card, 1, in_flight=0)
        until_done(tenant)
        make_busy(card, 1, in_flight=1)
        tenant.on_stage(WORK)
        stands_still(card, tenant)
    make_busy(card, 1, in_flight=0)
    tenant.on_stage([["sync"]])
    assert tenant("stage.cells()")[0] == 3 * COUNT


def test_a_kernel_that_nobody_has_timed_stands_still_too(card: Card) -> None:
    """It may be a long one."""
    tenant = staged(card)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    tenant.on_stage([["kernel", "legacy", 0, "add_long"]])
    stands_still(card, tenant)


def test_only_those_that_go_first_matter(card: Card) -> None:
    tenant = staged(card)
    card.attach(2)
    make_busy(card, 2, in_flight=1)
    make_busy(card, 1, in_flight=0)
    card.region.write({0: replace(YIELDS, neighbours=0b111)})
    tenant.on_stage([*WORK, ["sync"]])
    assert tenant("stage.cells()")[0] == COUNT


def test_a_graph_stands_still_as_one(card: Card) -> None:
    tenant = staged(card)
    tenant.on_stage([["stream", "s", False], ["capture", "g", "s", [["kernels", 5, "s", 0, "add", 300]]]])
    tenant.on_stage([["graph", "s", "g"], ["sync"]] * 4)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    tenant.on_stage([["graph", "s", "g"]])
    assert not tenant("stage.is_done('s')")
    make_busy(card, 1, in_flight=0)
    tenant.on_stage([["sync"]])
    assert tenant("stage.cells()")[0] == 25


def test_goes_on_when_the_grant_no_longer_says_so(card: Card) -> None:
    tenant = standing(card)
    card.region.write({0: Grant(neighbours=0b11)})
    until_done(tenant)


def test_goes_on_when_the_daemon_is_gone(card: Card) -> None:
    tenant = standing(card)
    card.region._decisions.fail_open_ms = 1
    card.region.beat(time.clock_gettime_ns(time.CLOCK_MONOTONIC) - 10**9)
    until_done(tenant)


def test_a_process_ends_though_its_work_stands_still(card: Card) -> None:
    assert standing(card).end() == ""


def test_a_context_ends_though_its_work_stands_still(card: Card) -> None:
    """And the next one stands still as well."""
    tenant = standing(card)
    assert tenant("cuda.cuDevicePrimaryCtxReset_v2(0)") == 0
    make_busy(card, 1, in_flight=0)
    tenant.stage()
    make_busy(card, 1, in_flight=1)
    tenant.on_stage(WORK)
    stands_still(card, tenant)
    make_busy(card, 1, in_flight=0)
    until_done(tenant)


def test_what_nobody_counts_any_more_goes_on(card: Card) -> None:
    """As the work of a stream that was destroyed: no end of it will be seen, and nobody looks after it."""
    tenant = staged(card)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    tenant.on_stage([["stream", "s", False], ["kernels", COUNT, "s", 0, "add", 200]])
    assert not tenant("stage.is_done('s')")
    tenant.on_stage([["destroy", "s"]])
    assert tenant("stage.cells()")[0] == COUNT


def test_a_context_ends_with_its_last_release_though_its_work_stands_still(card: Card) -> None:
    tenant = standing(card)
    tenant("call('cuDevicePrimaryCtxRelease_v2', 0)")
    assert process_page(card).in_flight == 0


def test_a_release_that_is_not_the_last_changes_nothing(card: Card) -> None:
    tenant = standing(card)
    tenant("call('cuDevicePrimaryCtxRetain', byref(c_void_p()), 0)")
    tenant("call('cuDevicePrimaryCtxRelease_v2', 0)")
    tenant.on_stage(WORK)  # more than what passed meanwhile
    stands_still(card, tenant)


def test_a_mate_that_was_killed_is_not_busy(card: Card) -> None:
    """Though its page says so until somebody gives back what it held."""
    tenant = standing(card)
    die(card, 1)
    until_done(tenant)
    assert process_page(card, 1).in_flight == 1


def test_of_two_that_shall_yield_to_each_other_one_goes(card: Card) -> None:
    """By mistake, or while the daemon writes."""
    card.attach(0)
    card.attach(1)
    tenants = [player(card, slot) for slot in (0, 1)]
    for tenant in tenants:
        tenant.stage()
    card.region.write({slot: replace(YIELDS, yield_to=0b11) for slot in (0, 1)})
    for _ in range(3):
        for tenant in tenants:
            tenant.on_stage(WORK)
        for tenant in tenants:
            until_done(tenant)


def test_loses_patience_with_one_that_goes_first_for_ever(card: Card) -> None:
    """It may hang, or wait for this very work by ways that nobody here sees."""
    tenant = staged(card)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: replace(YIELDS, yield_max_ms=50)})
    tenant.on_stage([*WORK, ["sync"]])
    assert tenant("stage.cells()")[0] == COUNT


@standin_only("a real driver may refuse work for a stream of a context that is not current")
def test_the_word_belongs_to_the_context_that_waits_for_it(card: Card) -> None:
    """Work for one context, given while another is current, which then ends: memory goes with its context."""
    tenant = staged(card)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    tenant.on_stage([["stream", "s", False]])
    tenant("c_void_p()", keep="other")
    tenant("call('cuCtxCreate_v2', byref(other), c_uint(0), 0)")
    tenant.on_stage([["set", "s", 0, 7]] * 50)
    tenant("stage.enter()")
    tenant("call('cuCtxDestroy_v2', other)")
    tenant.on_stage([["kernels", COUNT, "s", 1, "add", 200]])
    assert not tenant("stage.is_done('s')")
    make_busy(card, 1, in_flight=0)
    assert tenant("stage.cells()")[:2] == [7, COUNT]


def test_a_second_context_goes_while_work_of_the_first_stands_still(card: Card) -> None:
    tenant = staged(card)
    tenant("c_void_p()", keep="other")
    tenant("c_uint64()", keep="there")
    tenant("call('cuCtxCreate_v2', byref(other), c_uint(0), 0)")
    tenant("call('cuMemAlloc_v2', byref(there), c_size_t(4))")
    tenant("stage.enter()")
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    tenant.on_stage(WORK)
    tenant("call('cuCtxSetCurrent', other)")
    tenant("[call('cuMemsetD32Async', there, c_uint(number), c_size_t(1), None) for number in range(100)]")
    until(lambda: tenant("cuda.cuStreamQuery(None)") == 0)
    tenant("stage.enter()")
    assert not tenant("stage.is_done('legacy')")
    tenant("call('cuCtxDestroy_v2', other)")  # drivers wait for all contexts then
    make_busy(card, 1, in_flight=0)
    until_done(tenant)
    assert tenant("stage.cells()")[0] == COUNT


def test_a_forked_child_leaves_the_word_alone(card: Card) -> None:
    """It becomes a process of the tenant for itself, and ends as programs do."""
    tenant = standing(card)
    child = "(cuda.cuCtxSynchronize(), ctypes.CDLL(None).exit(0))"
    assert tenant(f"os.waitpid(os.fork() or {child}, 0)[1]") == 0
    assert not tenant("stage.is_done('legacy')")
    make_busy(card, 1, in_flight=0)
    until_done(tenant)
    assert tenant.end() == ""


@contextmanager
def now_and_then_busy(card: Card, slot: int) -> Iterator[None]:
    over, page = threading.Event(), mate(card, slot)

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
def test_random_programs_give_the_same_while_they_are_stopped(card: Card, queue: str) -> None:
    """Also where the driver has little room, and holds the caller until its work goes on."""
    card.attach(0)
    card.attach(1)
    tenant = player(card, STANDIN_QUEUE=queue)
    grants = [replace(YIELDS, mask=mask, yield_point_us=1) for mask in (0, 0x01, 0xF0)] + [Grant(neighbours=0b11)]
    with now_and_then_busy(card, 1):
        for seed in range(5):
            program = written(seed, 150, tuple(asdict(grant) for grant in grants))
            assert tenant.play(program.steps, CELLS) == {"cells": program.cells, "seen": program.seen}, f"seed {seed}"
    assert tenant.end() == ""


@pytest.mark.parametrize("stands", [False, True], ids=["running", "standing"])
def test_nobody_is_harmed_by_the_death_of_a_neighbour(card: Card, stands: bool) -> None:
    """Killed in the middle of its kernels: results beside it are exact, and what it held is there for the next."""
    tenant = staged(card)
    card.attach(2)
    neighbour = player(card, 2)
    neighbour.stage()
    work: list[Step] = [["kernels", 400, "legacy", 0, "add", 200], ["kernel", "legacy", 0, "copy2", 200]]
    make_busy(card, 1, in_flight=int(stands))
    card.region.write({0: YIELDS, 2: Grant(neighbours=0b111)})
    neighbour.on_stage(work)
    tenant.on_stage([["kernels", 100, "legacy", 0, "add_long"]])
    assert process_page(card).in_flight >= 1
    assert card.used(0) > 0
    tenant.kill()
    assert neighbour("stage.cells()")[0] == 3 * 400 + 1
    neighbour.on_stage(work)
    assert neighbour("stage.cells()")[0] == 3 * (3 * 400 + 1 + 400) + 1
    until(lambda: card.region.reclaim(0) > 0 or card.used(0) == 0, "the end of the killed process")
    assert card.used(0) == 0
    make_busy(card, 1, in_flight=0)
    assert player(card).play([*WORK, ["sync"]])["cells"][0] == COUNT
