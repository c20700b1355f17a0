"""Mates see that a tenant has work on the card as long as it runs, also when its context ends."""

from __future__ import annotations

import pytest

from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.at_the_gate import staged
from tests.gpu.shim.playing import Step, player, process_page, until
from tests.gpu.shim.tenants import Card, standin_only


def test_mates_see_that_it_is_idle_without_a_call_of_its_own(card: Card) -> None:
    tenant = staged(card, STANDIN_SPEED="0.02")  # the kernel of 5 ms takes 250
    card.attach(1)
    card.region.write({0: Grant(neighbours=0b11)})
    page = process_page(card)
    tenant.on_stage([["stream", "s", True], ["kernel", "legacy", 0, "add_long"], ["kernel", "thread", 1, "add_long"]])
    assert page.in_flight >= 1
    tenant.on_stage([["kernel", "s", 2, "add_long"]])
    until(lambda: page.in_flight == 0, "idleness")
    until(lambda: tenant("stage.is_done('legacy')") and tenant("stage.is_done('s')"), "the end")
    assert page.requested_us == page.completed_us


def test_who_has_waited_for_its_work_is_seen_to_be_idle_at_once(card: Card) -> None:
    """Not when the helper looks: that is a pause in which nobody would have the card."""
    tenant = staged(card)
    card.attach(1)
    card.region.write({0: Grant(neighbours=0b11)})
    for _ in range(20):
        tenant.on_stage([["kernel", "legacy", 0, "add", 100], ["wait_stream", "legacy"]])
        assert process_page(card).in_flight == 0
    assert process_page(card).idle_since_ns > 0


@pytest.mark.parametrize("first", [{"credit_us": 10**9}, {"neighbours": 0b11}], ids=["counted", "not counted"])
def test_seems_idle_in_the_end_whatever_it_was_granted_meanwhile(card: Card, first: dict[str, int]) -> None:
    """Beside blocking streams only the caller may end a batch on the legacy stream, and it may never come again."""
    tenant = staged(card)
    card.attach(1)
    many: Step = ["kernels", 20, "legacy", 0, "add", 500]
    tenant.on_stage(
        [["stream", "s", True], ["grant", first], many, ["grant", {"credit_us": 10**9, "neighbours": 0b11}]]
    )
    page = process_page(card)
    assert page.in_flight >= 1
    until(lambda: tenant("stage.is_done('legacy')"), "the end of the work")
    until(lambda: page.in_flight == 0, "idleness")
    assert page.requested_us == page.completed_us


def test_never_seems_idle_while_something_runs(card: Card) -> None:
    tenant = staged(card, STANDIN_SPEED="0.05")  # the kernel of 5 ms takes 100
    card.attach(1)
    card.region.write({0: Grant(neighbours=0b11)})
    page = process_page(card)
    tenant.on_stage([["stream", "s", False]])
    for stream in ("legacy", "s", "thread"):
        tenant.on_stage([["kernel", stream, 0, "add_long"]])
        while not tenant(f"stage.is_done('{stream}')"):
            seen = page.in_flight
            assert seen >= 1 or tenant(f"stage.is_done('{stream}')")


def test_what_was_queued_in_a_context_that_is_gone_is_no_longer_counted(card: Card) -> None:
    tenant = staged(card)
    held: list[Step] = [["grant", {"credit_us": 10**9}], ["stream", "s", False], ["kernels", 40, "s", 0, "add", 500]]
    tenant.on_stage(held)
    assert process_page(card).in_flight > 0
    tenant("call('cuDevicePrimaryCtxReset_v2', 0)")
    assert process_page(card).in_flight == 0
    assert tenant.end() == ""


@pytest.mark.parametrize("grant", [{}, {"credit_us": 10**9}])
def test_the_primary_context_may_end_with_its_last_release_and_begin_anew(card: Card, grant: dict[str, int]) -> None:
    """Its events are gone then, and what a driver does with those nobody promises."""
    card.attach(0)
    tenant = player(card)
    for _ in range(3):
        steps: list[Step] = [
            ["grant", grant],
            ["stream", "s", True],
            ["kernels", 5, "s", 0],
            ["kernels", 5, "legacy", 0],
        ]
        assert tenant.play(steps)["cells"][0] == 10
        tenant("call('cuDevicePrimaryCtxRelease_v2', 0)")
        assert process_page(card).in_flight == 0
    assert tenant.end() == ""


@standin_only("a real driver may refuse work for a stream of a context that is not current")
def test_work_given_while_another_context_is_current_is_seen_to_end(card: Card) -> None:
    """An event made then is of the wrong context, and cannot be recorded in the stream."""
    tenant = staged(card)
    tenant.on_stage([["grant", {"credit_us": 10**9}], ["stream", "s", False]])
    tenant("call('cuCtxCreate_v2', byref(c_void_p()), c_uint(0), 0)")
    tenant.on_stage([["set", "s", 0, 7]] * 100)
    until(lambda: process_page(card).in_flight == 0, "the end of what was queued")
    tenant.on_stage([["set", "s", 0, 8]] * 100)
    until(lambda: process_page(card).in_flight == 0, "the end of what was queued")
