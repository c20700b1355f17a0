"""A client reports work in flight while it runs, also when its context ends."""

from __future__ import annotations

import pytest

from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.clients import Card, standin_only
from tests.gpu.shim.gate_clients import staged
from tests.gpu.shim.players import Step, player, process_page, until


def test_idle_client_is_reported_without_another_call(card: Card) -> None:
    client = staged(card, STANDIN_SPEED="0.02")  # the kernel of 5 ms takes 250
    card.attach(1)
    card.region.write({0: Grant(neighbours=0b11)})
    page = process_page(card)
    client.on_stage([["stream", "s", True], ["kernel", "legacy", 0, "add_long"], ["kernel", "thread", 1, "add_long"]])
    assert page.in_flight >= 1
    client.on_stage([["kernel", "s", 2, "add_long"]])
    until(lambda: page.in_flight == 0, "idleness")
    until(lambda: client("stage.is_done('legacy')") and client("stage.is_done('s')"), "the end")
    assert page.requested_us == page.completed_us


def test_client_is_reported_idle_at_once_after_a_wait(card: Card) -> None:
    """Not only when the watcher checks: until then no client would use the card."""
    client = staged(card)
    card.attach(1)
    card.region.write({0: Grant(neighbours=0b11)})
    for _ in range(20):
        client.on_stage([["kernel", "legacy", 0, "add", 100], ["wait_stream", "legacy"]])
        assert process_page(card).in_flight == 0
    assert process_page(card).idle_since_ns > 0


@pytest.mark.parametrize("first", [{"credit_us": 10**9}, {"neighbours": 0b11}], ids=["counted", "not counted"])
def test_client_is_reported_idle_after_its_grant_changed(card: Card, first: dict[str, int]) -> None:
    """Beside blocking streams only the caller can close a batch on the legacy stream, and it may never launch again."""
    client = staged(card)
    card.attach(1)
    many: Step = ["kernels", 20, "legacy", 0, "add", 500]
    client.on_stage(
        [["stream", "s", True], ["grant", first], many, ["grant", {"credit_us": 10**9, "neighbours": 0b11}]]
    )
    page = process_page(card)
    assert page.in_flight >= 1
    until(lambda: client("stage.is_done('legacy')"), "the end of the work")
    until(lambda: page.in_flight == 0, "idleness")
    assert page.requested_us == page.completed_us


def test_client_is_never_reported_idle_while_work_runs(card: Card) -> None:
    client = staged(card, STANDIN_SPEED="0.05")  # the kernel of 5 ms takes 100
    card.attach(1)
    card.region.write({0: Grant(neighbours=0b11)})
    page = process_page(card)
    client.on_stage([["stream", "s", False]])
    for stream in ("legacy", "s", "thread"):
        client.on_stage([["kernel", stream, 0, "add_long"]])
        while not client(f"stage.is_done('{stream}')"):
            seen = page.in_flight
            assert seen >= 1 or client(f"stage.is_done('{stream}')")


def test_work_of_a_destroyed_context_is_no_longer_in_flight(card: Card) -> None:
    client = staged(card)
    held: list[Step] = [["grant", {"credit_us": 10**9}], ["stream", "s", False], ["kernels", 40, "s", 0, "add", 500]]
    client.on_stage(held)
    assert process_page(card).in_flight > 0
    client("call('cuDevicePrimaryCtxReset_v2', 0)")
    assert process_page(card).in_flight == 0
    assert client.end() == ""


@pytest.mark.parametrize("grant", [{}, {"credit_us": 10**9}])
def test_in_flight_falls_to_zero_when_the_primary_context_ends(card: Card, grant: dict[str, int]) -> None:
    """Its events end with it, and using them afterwards is undefined."""
    card.attach(0)
    client = player(card)
    for _ in range(3):
        steps: list[Step] = [
            ["grant", grant],
            ["stream", "s", True],
            ["kernels", 5, "s", 0],
            ["kernels", 5, "legacy", 0],
        ]
        assert client.play(steps)["cells"][0] == 10
        client("call('cuDevicePrimaryCtxRelease_v2', 0)")
        assert process_page(card).in_flight == 0
    assert client.end() == ""


@standin_only("a real driver may refuse work for a stream of a context that is not current")
def test_work_completes_when_launched_with_another_context_current(card: Card) -> None:
    """An event created then belongs to the wrong context and cannot be recorded in the stream."""
    client = staged(card)
    client.on_stage([["grant", {"credit_us": 10**9}], ["stream", "s", False]])
    client("call('cuCtxCreate_v2', byref(c_void_p()), c_uint(0), 0)")
    client.on_stage([["set", "s", 0, 7]] * 100)
    until(lambda: process_page(card).in_flight == 0, "the end of what was queued")
    client.on_stage([["set", "s", 0, 8]] * 100)
    until(lambda: process_page(card).in_flight == 0, "the end of what was queued")
