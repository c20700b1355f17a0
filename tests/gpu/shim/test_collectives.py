"""A rank is not held while its peers spin: neither its collectives, nor anything that comes before the next one."""

from __future__ import annotations

import pytest

from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.at_the_gate import UNKNOWN_US, staged, until_held
from tests.gpu.shim.playing import Step, make_busy, player, process_page, until
from tests.gpu.shim.tenants import Card, standin_only

COLLECTIVE: Step = ["kernel", "legacy", 0, "add_ncclDevKernel_AllReduce_f32", 20]
PLAIN: Step = ["kernels", 5, "legacy", 0, "add", 20]
MEETING: Step = ["kernel", "legacy", 0, "add_ncclDevKernel_two_ranks"]
SPENT = Grant(credit_us=1)
YIELDS = Grant(neighbours=0b11, yield_to=0b10, yield_max_ms=3600 * 1000)


def test_a_collective_is_never_held_but_charged(card: Card) -> None:
    tenant = staged(card)
    card.region.write({0: Grant(credit_us=0)})
    tenant.on_stage([COLLECTIVE])
    assert card.region.page(0).requested_us == UNKNOWN_US
    assert process_page(card).waits == 0


def test_nor_is_what_comes_before_the_next_one(card: Card) -> None:
    tenant = staged(card)
    card.region.write({0: SPENT})
    tenant.on_stage([COLLECTIVE, PLAIN, PLAIN, COLLECTIVE, ["sync"]])
    page = card.region.page(0)
    assert page.requested_us > SPENT.credit_us
    assert page.uses_collectives
    assert process_page(card).waits == 0


def test_whoever_stands_at_the_gate_passes_when_another_thread_meets_peers(card: Card) -> None:
    tenant = staged(card)
    card.region.write({0: SPENT})
    tenant("Beside(stage, given)", [PLAIN], keep="beside")
    until_held(card)
    tenant.on_stage([COLLECTIVE])
    assert tenant("beside.played.wait(30)")


def test_a_graph_with_a_collective_in_it_is_not_held(card: Card) -> None:
    tenant = staged(card)
    inside = [["kernel", "s", 0, "add_ncclDevKernel_AllReduce_f32", 20], ["kernel", "s", 0, "add", 20]]
    tenant.on_stage([["stream", "s", False], ["capture", "g", "s", inside]])
    assert card.region.page(0).uses_collectives
    card.region.write({0: SPENT})
    tenant.on_stage([["graph", "s", "g"]] * 5 + [["sync"]])
    assert tenant("stage.cells()")[0] == 10
    assert process_page(card).waits == 0


def test_what_stands_still_goes_on_when_a_collective_comes_behind_it(card: Card) -> None:
    tenant = staged(card)
    card.attach(1)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    tenant.on_stage([["kernels", 20, "legacy", 0, "add", 100]])
    assert not tenant("stage.is_done('legacy')")
    tenant.on_stage([COLLECTIVE])
    until(lambda: tenant("stage.is_done('legacy')"), "what was queued")
    tenant.on_stage([PLAIN, ["sync"]])


def test_without_any_credit_it_is_about_to_be_ended_and_waits(card: Card) -> None:
    tenant = staged(card)
    tenant.on_stage([COLLECTIVE])
    card.region.write({0: Grant(credit_us=0)})
    tenant.tell("stage.play(given)", [PLAIN])
    until_held(card)
    card.region.write({0: SPENT})
    tenant.answer()


def test_the_next_process_in_its_place_is_held(card: Card) -> None:
    tenant = staged(card)
    tenant.on_stage([COLLECTIVE, ["sync"]])
    tenant.kill()
    after = player(card)
    after.stage()
    assert not card.region.page(0).uses_collectives
    card.region.write({0: Grant(credit_us=0)})
    after.tell("stage.play(given)", [PLAIN])
    until_held(card)
    card.region.write({0: Grant()})
    after.answer()


@standin_only("on a card these wait for nobody")
@pytest.mark.parametrize("grant", [SPENT, Grant(neighbours=0b101, yield_to=0b100)], ids=["gated", "yields"])
def test_two_ranks_meet_though_one_of_them_should_be_held(card: Card, grant: Grant) -> None:
    first, second = staged(card), staged(card, 1)
    card.attach(2)
    make_busy(card, 2, in_flight=1)
    for rank in (first, second):
        rank.on_stage([MEETING])
    card.region.write({0: grant, 1: Grant()})
    for rank in (second, first):
        rank.on_stage([PLAIN, MEETING, PLAIN, MEETING])
    for rank in (first, second):
        rank.on_stage([["sync"]])
        assert rank("stage.cells()")[0] == 13
