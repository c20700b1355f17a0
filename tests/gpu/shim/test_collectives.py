"""A rank is not held while its peers spin: neither its collectives nor the work before the next one."""

from __future__ import annotations

import pytest

from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.clients import Card, standin_only
from tests.gpu.shim.gate_clients import UNKNOWN_US, staged, until_held
from tests.gpu.shim.players import Step, make_busy, player, process_page, until

COLLECTIVE: Step = ["kernel", "legacy", 0, "add_ncclDevKernel_AllReduce_f32", 20]
PLAIN: Step = ["kernels", 5, "legacy", 0, "add", 20]
MEETING: Step = ["kernel", "legacy", 0, "add_ncclDevKernel_two_ranks"]
SPENT = Grant(credit_us=1)
YIELDS = Grant(neighbours=0b11, yield_to=0b10, yield_max_ms=3600 * 1000)


def test_collective_is_charged_and_never_held(card: Card) -> None:
    client = staged(card)
    card.region.write({0: Grant(credit_us=0)})
    client.on_stage([COLLECTIVE])
    assert card.region.page(0).requested_us == UNKNOWN_US
    assert process_page(card).waits == 0


def test_other_work_is_not_held_after_the_first_collective(card: Card) -> None:
    client = staged(card)
    card.region.write({0: SPENT})
    client.on_stage([COLLECTIVE, PLAIN, PLAIN, COLLECTIVE, ["sync"]])
    page = card.region.page(0)
    assert page.requested_us > SPENT.credit_us
    assert page.uses_collectives
    assert process_page(card).waits == 0


def test_thread_at_the_gate_passes_when_another_launches_a_collective(card: Card) -> None:
    client = staged(card)
    card.region.write({0: SPENT})
    client("Beside(stage, given)", [PLAIN], keep="beside")
    until_held(card)
    client.on_stage([COLLECTIVE])
    assert client("beside.played.wait(30)")


def test_graph_with_a_collective_is_not_held(card: Card) -> None:
    client = staged(card)
    inside = [["kernel", "s", 0, "add_ncclDevKernel_AllReduce_f32", 20], ["kernel", "s", 0, "add", 20]]
    client.on_stage([["stream", "s", False], ["capture", "g", "s", inside]])
    assert card.region.page(0).uses_collectives
    card.region.write({0: SPENT})
    client.on_stage([["graph", "s", "g"]] * 5 + [["sync"]])
    assert client("stage.cells()")[0] == 10
    assert process_page(card).waits == 0


def test_paused_work_continues_when_a_collective_is_queued(card: Card) -> None:
    client = staged(card)
    card.attach(1)
    make_busy(card, 1, in_flight=1)
    card.region.write({0: YIELDS})
    client.on_stage([["kernels", 20, "legacy", 0, "add", 100]])
    assert not client("stage.is_done('legacy')")
    client.on_stage([COLLECTIVE])
    until(lambda: client("stage.is_done('legacy')"), "what was queued")
    client.on_stage([PLAIN, ["sync"]])


def test_collective_user_waits_when_it_has_no_credit_at_all(card: Card) -> None:
    client = staged(card)
    client.on_stage([COLLECTIVE])
    card.region.write({0: Grant(credit_us=0)})
    client.send("stage.play(given)", [PLAIN])
    until_held(card)
    card.region.write({0: SPENT})
    client.answer()


def test_next_process_in_the_slot_is_held(card: Card) -> None:
    client = staged(card)
    client.on_stage([COLLECTIVE, ["sync"]])
    client.kill()
    after = player(card)
    after.stage()
    assert not card.region.page(0).uses_collectives
    card.region.write({0: Grant(credit_us=0)})
    after.send("stage.play(given)", [PLAIN])
    until_held(card)
    card.region.write({0: Grant()})
    after.answer()


@standin_only("on a real card these do not wait")
@pytest.mark.parametrize("grant", [SPENT, Grant(neighbours=0b101, yield_to=0b100)], ids=["gated", "yields"])
def test_collective_completes_although_one_rank_should_be_held(card: Card, grant: Grant) -> None:
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
