"""What a tenant has queued stands still on the card while those that go first are busy; its callers do not."""

from __future__ import annotations

import time

from gpusquad.gpu.region.layout import LIVE
from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.playing import Player, Step, player, process_page, until
from tests.gpu.shim.tenants import Card

COUNT = 40
WORK: list[Step] = [["kernels", COUNT, "legacy", 0, "add", 200]]
YIELDS = Grant(mates=0b11, yields=0b10)


def staged(card: Card) -> Player:
    card.attach(0)
    card.attach(1)
    tenant = player(card)
    tenant.stage()
    return tenant


def make_busy(card: Card, slot: int, in_flight: int) -> None:
    """As if a process of that tenant had so much queued."""
    page = process_page(card, slot)
    page.state, page.in_flight = LIVE, in_flight


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


def test_only_those_that_go_first_matter(card: Card) -> None:
    tenant = staged(card)
    card.attach(2)
    make_busy(card, 2, in_flight=1)
    make_busy(card, 1, in_flight=0)
    card.region.write({0: Grant(mates=0b111, yields=0b10)})
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
    card.region.write({0: Grant(mates=0b11)})
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
