"""Callers wait for credits, borrow from idle mates, and run on when the daemon is gone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpusquad.gpu.region.card_region import CardRegion
from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.playing import (
    GROUPS,
    SMS_PER_GROUP,
    Player,
    Step,
    die,
    log,
    make_busy,
    mate,
    player,
    process_page,
    until,
)
from tests.gpu.shim.tenants import REAL_DRIVER, Card, standin_only

UNKNOWN_US = 10
"""What a kernel never seen is taken to last."""
FOREVER_NS = 3600 * 10**9
SECOND_NS = 10**9
"""What lies longer ago may lie before the machine's start, where its clock has no number for it."""


def staged(card: Card, slot: int = 0, **more: str) -> Player:
    card.attach(slot)
    tenant = player(card, slot, **more)
    tenant.stage()
    return tenant


def begin(tenant: Player, steps: list[Step]) -> None:
    """Without waiting for the end: the process may be held."""
    tenant.tell("stage.play(given)", steps)


def until_held(card: Card, slot: int = 0) -> None:
    until(lambda: process_page(card, slot).waiting == 1, "a process at the gate")


def asked_us(card: Card, slot: int = 0) -> int:
    return card.region.page(slot).asked_us


def longest_us(card: Card, slot: int = 0) -> float:
    """What the longest kernel known so far is taken to last."""
    return max([UNKNOWN_US, *(kernel.mean_us for kernel in card.region.kernels(slot))])


def unknown_kernels(first: int, count: int, stream: str = "legacy") -> list[Step]:
    """Each of another shape, so that each is taken to last as long as an unknown one."""
    return [["kernel", stream, 0, "add", 0, "plain", grid] for grid in range(first, first + count)]


def test_never_asks_beyond_its_credit(card: Card) -> None:
    tenant = staged(card)
    first = 1
    for launches in (5, 12, 40):
        limit_us = asked_us(card) + launches * UNKNOWN_US + UNKNOWN_US // 2
        card.region.write({0: Grant(credit_us=limit_us)})
        begin(tenant, unknown_kernels(first, launches + 3))
        until_held(card)
        assert asked_us(card) == limit_us - UNKNOWN_US // 2
        card.region.write({0: Grant()})
        tenant.answer()
        first += launches + 3


def test_more_credit_lets_it_go_on_where_it_stood(card: Card) -> None:
    tenant = staged(card)
    card.region.write({0: Grant(credit_us=100)})
    begin(tenant, [["kernels", 200, "legacy", 0, "add", 20]])
    until_held(card)
    held_at = card.region.page(0).launches
    card.region.write({0: Grant(credit_us=asked_us(card) + 10**6)})
    tenant.answer()
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
def test_every_kind_of_work_is_held(card: Card, step: Step) -> None:
    tenant = staged(card)
    card.region.write({0: Grant(credit_us=0)})
    capture: Step = ["capture", "g", "own", [["kernel", "own", 0, "add", 20]]]
    tenant.on_stage([["stream", "own", False], capture])  # capturing is never held
    begin(tenant, [step])
    until_held(card)
    card.region.write({0: Grant()})
    tenant.answer()


def test_something_larger_than_the_credit_passes_while_any_is_left_and_the_debt_stays(card: Card) -> None:
    tenant = staged(card)
    tenant.on_stage([["kernels", 4, "legacy", 0, "add_long"], ["sync"], ["kernel", "legacy", 0, "add_long"]])
    (long,) = card.region.kernels(0)
    assert long.mean_us > 4000
    before_us = asked_us(card)
    card.region.write({0: Grant(credit_us=before_us + 1000)})
    tenant.on_stage([["kernel", "legacy", 0, "add_long"]])
    assert asked_us(card) > before_us + 4000
    card.region.write({0: Grant(credit_us=before_us + 2000)})  # another squad, but it is in debt
    begin(tenant, [["kernel", "legacy", 0, "add_short"]])
    until_held(card)
    card.region.write({0: Grant()})
    tenant.answer()


def test_a_graph_is_one_unit_and_its_cost_is_learned(card: Card) -> None:
    tenant = staged(card)
    inside: list[Step] = [["kernel", "s", 0, "add_long"] for _ in range(2)]
    tenant.on_stage([["stream", "s", False], ["capture", "g", "s", inside]])
    assert card.region.page(0).launches == 0
    for _ in range(3):
        tenant.on_stage([["graph", "s", "g"], ["sync"]])
    tenant.on_stage([["graph", "s", "g"], ["sync"], ["graph", "s", "g"]])
    (graph,) = card.region.kernels(0)
    assert (graph.name, process_page(card).graphs, process_page(card).launches) == ("graph", 5, 0)
    assert graph.mean_us > 8000


def test_borrows_while_all_mates_are_idle(card: Card) -> None:
    tenant = staged(card)
    card.attach(1)
    card.attach(2)
    make_busy(card, 1, in_flight=0)
    card.region.write({0: Grant(credit_us=0, mates=0b111, borrows=True)})
    tenant.on_stage([["kernels", 5, "legacy", 0, "add", 20]])
    make_busy(card, 2, in_flight=3)
    begin(tenant, [["kernels", 5, "legacy", 0, "add", 20]])
    until_held(card)
    make_busy(card, 2, in_flight=0)  # no word of the daemon
    tenant.answer()
    assert asked_us(card) > 0


def test_a_mate_at_the_gate_is_not_idle(card: Card) -> None:
    tenant = staged(card)
    card.attach(1)
    beside = mate(card, 1)
    beside.waiting = 1
    card.region.write({0: Grant(credit_us=0, mates=0b11, borrows=True)})
    begin(tenant, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    beside.waiting = 0
    tenant.answer()


@pytest.mark.parametrize("since", ["last_launch_ns", "idle_since_ns"])
def test_a_mate_lingers_after_its_last_launch_and_its_last_work(card: Card, since: str) -> None:
    """Between two kernels of a request, and two requests, there is nothing to lend."""
    tenant = staged(card)
    card.attach(1)
    beside, long_us = mate(card, 1), 2**32 - 1
    now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    beside.last_launch_ns = beside.idle_since_ns = now_ns - 1000 * (long_us + 1)  # the machine may be younger
    setattr(beside, since, now_ns)
    card.region.write({0: Grant(credit_us=0, mates=0b11, borrows=True, linger_us=long_us)})
    begin(tenant, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    setattr(beside, since, getattr(beside, since) - 1000 * (long_us + 1))
    tenant.answer()


def test_does_not_borrow_unasked(card: Card) -> None:
    tenant = staged(card)
    card.attach(1)
    card.region.write({0: Grant(credit_us=0, mates=0b11)})
    begin(tenant, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    card.region.write({0: Grant(credit_us=0, mates=0b11, borrows=True)})
    tenant.answer()


def test_of_what_is_borrowed_little_is_queued(card: Card) -> None:
    """So that the card can be given back soon."""
    tenant = staged(card)
    card.attach(1)
    tenant.on_stage([["kernels", 4, "legacy", 0, "add_long"], ["sync"], ["kernel", "legacy", 0, "add_long"], ["sync"]])
    card.region.write({0: Grant(credit_us=0, mates=0b11, borrows=True)})
    tenant.on_stage([["kernels", 4, "legacy", 0, "add_long"]])
    assert process_page(card).waits >= 3
    assert process_page(card).asked_us - process_page(card).done_us < 2.5 * longest_us(card)


def test_a_loan_is_as_large_as_the_grant_says(card: Card) -> None:
    """Short loans are what a mate that wakes does not notice. Nothing but the loan lets it go on here."""
    tenant = staged(card)
    card.attach(1)
    learn: list[Step] = [["kernel", "legacy", 0, "add", 100], ["sync"]]
    tenant.on_stage(learn * 5)
    (known,) = card.region.kernels(0)
    assert known.mean_us < 1000, "the card is far too slow for this test"
    loan_us = int(3 * known.mean_us) + 10
    forever_us = 3600 * 10**6
    card.region.write({0: Grant(0, 0, 0, 0, 0b11, 0, True, loan_us, forever_us)})
    begin(tenant, [["kernels", 100, "legacy", 0, "add", 100]])
    page, most_us = process_page(card), 0
    until(lambda: page.launches >= 5 + 50, "half of it")
    while page.launches < 5 + 100:
        asked = page.asked_us  # first: what is done meanwhile was asked for before
        most_us = max(most_us, asked - page.done_us)
    tenant.answer()
    assert page.waits >= 5
    assert most_us <= max(loan_us, 2 * longest_us(card))


def test_a_borrower_whose_queue_does_not_move_loses_patience(card: Card) -> None:
    """What it brings may be what the queue waits for."""
    tenant = staged(card)
    card.attach(1)
    tenant.on_stage([["stream", "s", False], ["stream", "t", False], ["kernel", "t", 1, "add", 0], ["sync"]])
    card.region.write({0: Grant(0, 0, 0, 0, 0b11, 0, True, 1, 1000)})
    begin(tenant, [["await_value", "s", 2, 7], ["kernel", "s", 0, "add", 0], ["set", "t", 2, 7], ["sync"]])
    tenant.answer()
    assert tenant("stage.cells()")[:3] == [1, 1, 7]
    assert process_page(card).waited_ns >= 1_000_000


def test_a_mate_that_spoils_its_file_harms_nobody(card: Card) -> None:
    """Whoever looks at it neither dies nor runs out of files; who cannot be seen is taken to be busy."""
    tenant = staged(card)
    card.attach(1)
    card.region.write({0: Grant(credit_us=0, mates=0b11, borrows=True)})
    tenant.on_stage([["kernels", 5, "legacy", 0, "add", 20]])
    files = Path(f"/proc/{tenant.process.pid}/fd")
    opened = len(list(files.iterdir()))
    content = card.region.path(1).read_bytes()
    os.truncate(card.region.path(1), 100)
    begin(tenant, [["kernels", 5, "legacy", 0, "add", 20]])
    until_held(card)
    for _ in range(500):  # it looks again and again meanwhile
        assert len(list(files.iterdir())) <= opened + 1
    assert tenant.process.poll() is None
    with card.region.path(1).open("r+b") as file:
        file.write(content)
    tenant.answer()
    assert tenant("stage.cells()")[0] == 10


def test_a_place_used_again_goes_on_counting(card: Card) -> None:
    """Credits are cumulative: a tenant whose process starts anew must not get those of the last one again."""
    first = staged(card)
    first.on_stage(unknown_kernels(1, 20))
    before_us = asked_us(card)
    assert before_us >= 20 * UNKNOWN_US
    first.kill()
    card.region.reclaim(0)
    second = player(card)
    second.stage()
    card.region.write({0: Grant(credit_us=before_us + 2 * UNKNOWN_US)})
    begin(second, unknown_kernels(100, 5))
    until_held(card)
    assert asked_us(card) == before_us + 2 * UNKNOWN_US
    card.region.write({0: Grant()})
    second.answer()


def test_mates_see_that_it_is_idle_without_a_call_of_its_own(card: Card) -> None:
    tenant = staged(card, STANDIN_SPEED="0.02")  # the kernel of 5 ms takes 250
    card.attach(1)
    card.region.write({0: Grant(mates=0b11)})
    page = process_page(card)
    tenant.on_stage([["stream", "s", True], ["kernel", "legacy", 0, "add_long"], ["kernel", "thread", 1, "add_long"]])
    assert page.in_flight >= 1
    tenant.on_stage([["kernel", "s", 2, "add_long"]])
    until(lambda: page.in_flight == 0, "idleness")
    until(lambda: tenant("stage.is_done('legacy')") and tenant("stage.is_done('s')"), "the end")
    assert page.asked_us == page.done_us


def test_who_has_waited_for_its_work_is_seen_to_be_idle_at_once(card: Card) -> None:
    """Not when the helper looks: that is a pause in which nobody would have the card."""
    tenant = staged(card)
    card.attach(1)
    card.region.write({0: Grant(mates=0b11)})
    for _ in range(20):
        tenant.on_stage([["kernel", "legacy", 0, "add", 100], ["wait_stream", "legacy"]])
        assert process_page(card).in_flight == 0
    assert process_page(card).idle_since_ns > 0


@pytest.mark.parametrize("first", [{"credit_us": 10**9}, {"mates": 0b11}], ids=["counted", "not counted"])
def test_seems_idle_in_the_end_whatever_it_was_granted_meanwhile(card: Card, first: dict[str, int]) -> None:
    """Beside blocking streams only the caller may end a batch on the legacy stream, and it may never come again."""
    tenant = staged(card)
    card.attach(1)
    many: Step = ["kernels", 20, "legacy", 0, "add", 500]
    tenant.on_stage([["stream", "s", True], ["grant", first], many, ["grant", {"credit_us": 10**9, "mates": 0b11}]])
    page = process_page(card)
    assert page.in_flight >= 1
    until(lambda: tenant("stage.is_done('legacy')"), "the end of the work")
    until(lambda: page.in_flight == 0, "idleness")
    assert page.asked_us == page.done_us


def test_a_mate_that_was_killed_is_idle(card: Card) -> None:
    tenant = staged(card)
    card.attach(1)
    make_busy(card, 1, in_flight=3)
    card.region.write({0: Grant(credit_us=0, mates=0b11, borrows=True)})
    begin(tenant, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    die(card, 1)
    tenant.answer()


def test_never_seems_idle_while_something_runs(card: Card) -> None:
    tenant = staged(card, STANDIN_SPEED="0.05")  # the kernel of 5 ms takes 100
    card.attach(1)
    card.region.write({0: Grant(mates=0b11)})
    page = process_page(card)
    tenant.on_stage([["stream", "s", False]])
    for stream in ("legacy", "s", "thread"):
        tenant.on_stage([["kernel", stream, 0, "add_long"]])
        while not tenant(f"stage.is_done('{stream}')"):
            seen = page.in_flight
            assert seen >= 1 or tenant(f"stage.is_done('{stream}')")


def open_again(card: Card, fail_open_ms: int) -> None:
    card.region = CardRegion(card.region.folder, groups=8, sms_per_group=8, fail_open_ms=fail_open_ms)


def test_runs_on_when_the_daemon_is_gone_and_is_held_again_when_it_returns(card: Card) -> None:
    tenant = staged(card)
    open_again(card, fail_open_ms=50)
    card.region.beat(time.monotonic_ns() + FOREVER_NS)
    card.region.write({0: Grant(credit_us=0, mask=0x01)})
    begin(tenant, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    card.region.beat(time.monotonic_ns() - SECOND_NS)  # nobody says so: the heartbeat just stays behind
    tenant.answer()
    tenant.on_stage([["kernels", 50, "legacy", 0, "add", 20]])
    assert process_page(card).mask_now == 0
    card.region.beat(time.monotonic_ns() + FOREVER_NS)
    begin(tenant, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    card.region.write({0: Grant()})
    tenant.answer()


def test_waits_for_the_daemon_where_that_was_asked_for(card: Card) -> None:
    tenant = staged(card)
    card.region.beat(time.monotonic_ns() - SECOND_NS)
    card.region.write({0: Grant(credit_us=0)})
    begin(tenant, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    card.region.write({0: Grant(credit_us=UNKNOWN_US)})
    tenant.answer()


def test_who_is_detached_at_the_gate_goes(card: Card) -> None:
    tenant = staged(card)
    card.region.write({0: Grant(credit_us=0)})
    begin(tenant, [["kernel", "legacy", 0, "add", 20]])
    until_held(card)
    card.region.detach(0)
    tenant.answer()


def test_processes_of_a_tenant_share_its_credit(card: Card) -> None:
    first = staged(card)
    card.region.write({0: Grant(credit_us=3 * UNKNOWN_US)})
    first.on_stage(unknown_kernels(1, 2))
    second = player(card)
    second.stage()
    begin(second, unknown_kernels(10, 5))
    until(lambda: process_page(card, index=1).waiting == 1, "the second process at the gate")
    assert asked_us(card) == 3 * UNKNOWN_US
    card.region.write({0: Grant()})
    second.answer()


def test_threads_share_the_last_credit(card: Card) -> None:
    tenant = staged(card)
    card.region.write({0: Grant(credit_us=10 * UNKNOWN_US)})
    begin(tenant, [["together", [unknown_kernels(1 + 20 * number, 20, "thread") for number in range(4)]]])
    until(lambda: process_page(card).waiting == 4, "four threads at the gate")
    assert asked_us(card) == 10 * UNKNOWN_US
    card.region.write({0: Grant()})
    tenant.answer()


def test_alone_it_costs_no_calls_but_a_few_samples(card: Card) -> None:
    path = card.region.folder / "log"
    tenant = staged(card, STANDIN_LOG=str(path))
    tenant.on_stage([["kernels", 1000, "legacy", 0, "add", 0], ["sync"]])
    page = process_page(card)
    assert (page.launches, page.waits, page.moves, page.in_flight) == (1000, 0, 0, 0)
    if REAL_DRIVER:
        return  # of its calls it tells nobody
    kinds = [line.kind for line in log(path)]
    assert kinds.count("kernel") == 1000
    assert kinds.count("wait") == 0
    assert kinds.count("record") <= 2 * (8 + 3 + 1000 // 64)  # pairs: the early ones, some not yet settled, one of 64
    assert {line.stream.split(":")[0] for line in log(path)} == {"legacy"}


def test_alone_again_it_goes_back_to_its_own_streams_and_is_quiet(card: Card) -> None:
    path = card.region.folder / "log"
    tenant = staged(card, STANDIN_LOG=str(path))
    card.attach(1)
    streams = ("legacy", "s", "thread")
    card.region.write({0: Grant(mask=0x01, mates=0b11)})
    tenant.on_stage([["stream", "s", True], *([["kernel", s, 0, "add", 20] for s in streams] * 3), ["sync"]])
    until(lambda: process_page(card).in_flight == 0, "idleness")
    assert {len(tenant(f"stage.burn({stream!r}, 1024)")) for stream in streams} == {SMS_PER_GROUP}
    until(lambda: process_page(card).in_flight == 0, "idleness")
    card.region.write({0: Grant()})
    tenant.on_stage([["kernel", "thread", 0, "add", 20], ["kernel", "legacy", 0, "add", 20], ["sync"]])
    lines_before = 0 if REAL_DRIVER else len(log(path))
    tenant.on_stage([["kernels", 30, stream, 0, "copy2", 0] for stream in streams])
    assert min(len(tenant(f"stage.burn({stream!r}, 1024)")) for stream in streams) >= SMS_PER_GROUP * GROUPS
    assert process_page(card).mask_now == 0
    if REAL_DRIVER:
        return
    after = log(path)[lines_before:]
    assert {line.allowed for line in after} == {2**64 - 1}
    assert sum(line.kind == "wait" for line in after) == 0


def test_a_forked_child_that_launches_nothing_does_no_harm(card: Card) -> None:
    tenant = staged(card)
    card.attach(1)
    card.region.write({0: Grant(mask=0x01, mates=0b11)})
    tenant.on_stage([["kernels", 10, "legacy", 0, "add", 20]])
    assert tenant("os.waitpid(os.fork() or os._exit(0), 0)[1]") == 0
    tenant.on_stage([["kernels", 10, "legacy", 0, "add", 20]])
    assert tenant("stage.cells()")[0] == 20
    assert tenant.end() == ""


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
