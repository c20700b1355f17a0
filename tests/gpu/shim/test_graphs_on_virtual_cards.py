"""Graphs captured on a virtual card stay on its SMs, and are otherwise as they would be without the library."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu.shim.playing import (
    ALL_KINDS,
    BLOCKS,
    BLOCKS_PER_SM,
    FORK,
    JOIN,
    SMS_PER_GROUP,
    Player,
    Step,
    bare_player,
    count_of,
    is_whole,
    player,
    until,
)
from tests.gpu.shim.tenants import Card, standin_only

WITHIN = 0x0C
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
INVALIDATED = 901


@pytest.fixture
def tenant(card: Card) -> Player:
    card.attach(0)
    made = player(card)
    made.stage()
    made.on_stage([*ALL_KINDS, ["grant", {"virtual_card_mask": WITHIN}]])
    return made


def told_in(tenant: Player, inside: list[Step], stream: str = "independent", mode: int = GLOBAL) -> None:
    """Captures that on a stream, and launches it where the program launches its graphs."""
    tenant.on_stage([["capture", "g", stream, inside, mode], ["graph", stream, "g"], ["sync"]])


def sms(tenant: Player, room: str) -> set[int]:
    return set(tenant(f"stage.sms({room!r})"))


def own_sms(tenant: Player, stream: str = "legacy") -> set[int]:
    """Those of the virtual card, by the word of blocks that were not captured."""
    return set(tenant(f"stage.burn({stream!r}, {BLOCKS})"))


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
@pytest.mark.parametrize("how", ["plain", "ex", "cooperative"])
@pytest.mark.parametrize("stream", ["thread", "blocking", "independent"])
def test_captured_kernels_stay_on_the_virtual_card(tenant: Player, stream: str, how: str, mode: int) -> None:
    blocks = BLOCKS_PER_SM * count_of(WITHIN) if how == "cooperative" else BLOCKS
    tenant.on_stage([["room", "told", blocks]])
    told_in(tenant, [["tell_sms", "told", stream, how]], stream, mode)
    seen = sms(tenant, "told")
    assert len(seen) == count_of(WITHIN)
    assert seen == own_sms(tenant)
    assert tenant.end() == ""


def test_a_graph_is_on_all_of_the_virtual_card_whatever_part_its_tenant_has(tenant: Player) -> None:
    """It cannot be moved later, and what is no part of the virtual card it never has."""
    tenant.on_stage([["room", "told", BLOCKS], ["grant", {"virtual_card_mask": WITHIN, "mask": 0x04}]])
    told_in(tenant, [["tell_sms", "told", "independent"]])
    part = own_sms(tenant, "independent")
    assert len(part) == SMS_PER_GROUP
    assert part < (seen := sms(tenant, "told"))
    assert len(seen) == count_of(WITHIN)


def test_a_fork_is_kept_too(tenant: Player) -> None:
    tenant.on_stage([["room", name, BLOCKS] for name in ("before", "aside", "beside", "after")])
    inside: list[Step] = [
        ["tell_sms", "before", "independent"],
        *FORK,
        ["tell_sms", "aside", "side"],
        ["tell_sms", "beside", "independent"],
        *JOIN,
        ["tell_sms", "after", "independent"],
    ]
    told_in(tenant, inside)
    own = own_sms(tenant)
    assert len(own) == count_of(WITHIN)
    assert [sms(tenant, name) for name in ("before", "aside", "beside", "after")] == [own] * 4


@pytest.mark.parametrize("stream", ["thread", "independent"])
def test_two_captures_at_once_do_not_meet(tenant: Player, stream: str) -> None:
    tenant.on_stage([["room", "one", BLOCKS], ["room", "other", BLOCKS]])
    tenant.on_stage([["begin_capture", stream, RELAXED], ["begin_capture", "blocking", RELAXED]])
    for _ in range(3):
        tenant.on_stage([["tell_sms", "one", stream], ["tell_sms", "other", "blocking"]])
    tenant.on_stage([["end_capture", "g", stream], ["kernel", "blocking", 0], ["end_capture", "h", "blocking"]])
    tenant.on_stage([["graph", stream, "g"], ["sync"], ["graph", "blocking", "h"], ["sync"]])
    assert [tenant(f"stage.edges({graph!r})") for graph in "gh"] == [2, 3]
    own = own_sms(tenant)
    assert [sms(tenant, "one"), sms(tenant, "other")] == [own, own]


@pytest.mark.parametrize("mode", [THREAD_LOCAL, RELAXED])
def test_threads_that_capture_at_once(tenant: Player, mode: int) -> None:
    """Their own default streams, and streams that they share with nobody."""
    rooms = ["a", "b", "c"]
    tenant.on_stage([["room", room, BLOCKS] for room in rooms])
    streams = ["thread", "blocking", "independent"]
    parts = [
        [["capture", room, stream, [["tell_sms", room, stream]] * 5, mode]]
        for room, stream in zip(rooms, streams, strict=True)
    ]
    tenant.on_stage([["together", parts]])
    for room in rooms:
        tenant.on_stage([["graph", "independent", room], ["sync"]])
    own = own_sms(tenant)
    assert [sms(tenant, room) for room in rooms] == [own] * 3


def test_another_thread_brings_what_is_captured(tenant: Player) -> None:
    tenant.on_stage([["room", "told", BLOCKS]])
    told_in(tenant, [["in_thread", [["tell_sms", "told", "independent"]]]], mode=RELAXED)
    assert sms(tenant, "told") == own_sms(tenant)


def test_threads_that_bring_to_one_stream_at_once_make_one_line(tenant: Player) -> None:
    """What comes while a kernel is on its detour is not forgotten."""
    count = 150
    tenant("sys.setswitchinterval(1e-6)")
    adds, sets = [["kernel", "independent", 0]] * count, [["set", "independent", 1, 7]] * count
    told: list[Step] = [["record", "told", "independent"]] * count
    for _ in range(10):
        tenant.on_stage([["begin_capture", "independent", RELAXED], ["together", [adds, sets, sets, told]]])
        tenant.on_stage([["end_capture", "g", "independent"]])
        assert (tenant("stage.edges('g')"), tenant("stage.ends('g')")) == (3 * count - 1, 1)
    tenant.on_stage([["graph", "independent", "g"], ["sync"]])
    assert tenant("stage.cells()")[:2] == [count, 7]


def programs() -> dict[str, list[Step]]:
    add, copy2 = ["kernel", "independent", 0, "add", 20], ["kernel", "independent", 0, "copy2", 20]
    memory: list[Step] = [
        ["set", "independent", 1, 7],
        ["kernel", "independent", 1, "add"],
        ["copy", "independent", 0, 1],
    ]
    on_side: Step = ["kernel", "side", 1, "copy2", 20]
    return {
        "a line": [add, copy2, add, copy2],
        "memory between kernels": [copy2, *memory, add, *memory, copy2],
        "fork and join": [add, *FORK, on_side, copy2, on_side, *JOIN, add],
        "fork before anything": [*FORK, on_side, *JOIN, add],
        "fork twice": [add, *FORK, on_side, *JOIN, copy2, *FORK, on_side, copy2, *JOIN, add],
        "nothing on the stream itself": [*FORK, on_side, on_side, *JOIN],
    }


@pytest.mark.parametrize("inside", programs().values(), ids=list(programs()))
@pytest.mark.parametrize("turns", [1, 50])
def test_a_graph_does_and_waits_as_without_the_library(card: Card, inside: list[Step], turns: int) -> None:
    """A capture first that the second comes after, so that what the first has left would show."""
    around: list[Step] = [
        ["kernel", "independent", 0, "add"],
        ["graph", "independent", "g"],
        ["kernel", "independent", 0],
    ]
    card.attach(0)
    told: list[dict[str, Any]] = []
    for one in (player(card), bare_player(card)):
        one.stage()
        one.on_stage([*ALL_KINDS, ["grant", {"virtual_card_mask": WITHIN}]])
        one.on_stage([["capture", "first", "independent", inside], ["capture", "g", "independent", inside]])
        one.on_stage(around * turns)
        told.append({"edges": one("stage.edges('g')"), "cells": one("stage.cells()")})
        assert one.end() == ""
    assert told[0] == told[1]


def test_what_a_stream_waits_for_is_as_without_the_library(card: Card) -> None:
    """Programs ask for it, and change it, to put nodes of their own between."""
    kernel: Step = ["kernel", "independent", 0]
    inside: list[Step] = [
        *[["tell_behind", "independent"], kernel, ["tell_behind", "independent"], ["keep_behind", "independent"]],
        *[kernel, kernel, ["set_behind", "independent"], ["tell_behind", "independent"]],
        *[kernel, ["tell_behind", "independent"], *FORK, ["kernel", "side", 1], *JOIN],
        *[["tell_behind", "independent"], kernel, ["tell_behind", "independent"]],
    ]
    card.attach(0)
    told: list[Any] = []
    for one in (player(card), bare_player(card)):
        one.stage()
        one.on_stage([*ALL_KINDS, ["grant", {"virtual_card_mask": WITHIN}], ["capture", "g", "independent", inside]])
        told.append([one("stage.seen"), one("stage.edges('g')")])
    assert told[0] == told[1]
    assert told[0][0][:4] == [0, 1, 1, 1]


def test_what_a_program_takes_out_of_the_order_does_not_spoil_the_end(tenant: Player) -> None:
    kernel: Step = ["kernel", "independent", 0]
    told_in(tenant, [kernel, ["keep_behind", "independent"], kernel, ["set_behind", "independent"]])
    assert tenant("stage.edges('g')") == 1
    assert tenant("stage.cells()")[0] == 2


def test_a_capture_that_was_spoilt_leaves_nothing_to_the_next(tenant: Player) -> None:
    tenant.on_stage([["room", "told", BLOCKS]])
    for _ in range(3):
        tenant.on_stage([["begin_capture", "independent"], ["kernel", "independent", 0], *FORK, ["kernel", "side", 0]])
        first, end = tenant("stage.spoil_capture('independent')")
        assert (first != 0, end) == (True, INVALIDATED)
    told_in(tenant, [["kernel", "independent", 0], ["tell_sms", "told", "independent"]])
    assert sms(tenant, "told") == own_sms(tenant)
    assert tenant("stage.cells()")[0] == 1
    assert tenant.end() == ""


def test_off_a_virtual_card_a_graph_has_all_sms(tenant: Player) -> None:
    for grant in ({}, {"mask": 0x03}):
        tenant.on_stage([["grant", grant], ["room", "told", BLOCKS]])
        told_in(tenant, [["tell_sms", "told", "independent"]])
        assert is_whole(sms(tenant, "told"))


def test_a_graph_outlives_as_many_partitions_as_there_may_be(tenant: Player) -> None:
    """Those make room for each other; the one that a graph runs on must not be among them."""
    within = 0x0F
    tenant.on_stage([["grant", {"virtual_card_mask": within}], ["room", "told", BLOCKS]])
    tenant.on_stage([["capture", "g", "independent", [["tell_sms", "told", "independent"]]]])
    for mask in range(1, within):
        tenant.on_stage([["grant", {"virtual_card_mask": within, "mask": mask}], ["kernel", "independent", 0]])
    tenant.on_stage([["graph", "independent", "g"], ["sync"]])
    assert len(sms(tenant, "told")) == count_of(within)
    assert tenant("stage.cells()")[0] == within - 1


def test_a_grid_that_fits_the_card_but_not_the_virtual_one_runs_on_the_card(tenant: Player) -> None:
    """As one that is not captured does: a program that sized it by the card would fail otherwise."""
    blocks = BLOCKS_PER_SM * (count_of(WITHIN) + SMS_PER_GROUP)
    tenant.on_stage([["room", "told", blocks]])
    told_in(tenant, [["kernel", "independent", 0], ["tell_sms", "told", "independent", "cooperative"]])
    assert len(sms(tenant, "told")) > count_of(WITHIN)
    assert tenant("stage.cells()")[0] == 1


def test_a_kernel_that_might_begin_early_begins_in_its_turn(tenant: Player) -> None:
    """It stays on the virtual card, and the graph's edges are plain ones."""
    tenant.on_stage([["room", "told", BLOCKS]])
    told_in(tenant, [["kernel", "independent", 0], ["tell_sms", "told", "independent", "overlapping"]])
    assert tenant("stage.edges('g')") == 1
    assert sms(tenant, "told") == own_sms(tenant)


@standin_only("what may be captured with such an event differs from driver to driver")
def test_a_kernel_that_sets_an_event_on_its_way_stays_on_the_callers_stream(tenant: Player) -> None:
    tenant.on_stage([["room", "told", BLOCKS]])
    told_in(tenant, [["kernel", "independent", 0], ["tell_sms", "told", "independent", "telling"]])
    assert is_whole(sms(tenant, "told"))


@standin_only("a driver puts so many blocks together for kernels that were told of it alone")
def test_a_cluster_that_may_not_fit_stays_on_the_callers_stream(tenant: Player) -> None:
    tenant.on_stage([["room", "small", BLOCKS], ["room", "large", BLOCKS]])
    told_in(tenant, [["tell_sms", "small", "independent", "cluster"], ["tell_sms", "large", "independent", "large"]])
    assert sms(tenant, "small") == own_sms(tenant)
    assert is_whole(sms(tenant, "large"))


def test_a_capture_into_a_graph_of_the_programs_own_is_left_alone(tenant: Player) -> None:
    """It may be the body of a conditional node, whose kernels must all be of one context."""
    tenant.on_stage([["room", "told", BLOCKS], ["room", "aside", BLOCKS], ["begin_capture_to_graph", "independent"]])
    tenant.on_stage([["tell_sms", "told", "independent"], *FORK, ["tell_sms", "aside", "side"], *JOIN])
    tenant.on_stage([["end_capture", "g", "independent"], ["graph", "independent", "g"], ["sync"]])
    assert is_whole(sms(tenant, "told"))
    assert is_whole(sms(tenant, "aside"))
    tenant.on_stage([["room", "told", BLOCKS]])
    told_in(tenant, [["tell_sms", "told", "independent"]])
    assert sms(tenant, "told") == own_sms(tenant)


def test_graphs_are_captured_anew_after_the_context_was_reset(tenant: Player) -> None:
    for _ in range(3):
        tenant.stage()
        tenant.on_stage([*ALL_KINDS, ["room", "told", BLOCKS]])
        told_in(tenant, [["tell_sms", "told", "independent"]])
        assert len(sms(tenant, "told")) == count_of(WITHIN)
        tenant("call('cuDevicePrimaryCtxReset_v2', 0)")
    assert tenant.end() == ""


@standin_only("makes partitions cost more than the stand-in's card has")
def test_runs_on_the_card_where_no_partition_can_be_made(card: Card) -> None:
    card.attach(0)
    tenant = player(card, STANDIN_GREEN_BYTES=str(1 << 40))
    tenant.stage()
    tenant.on_stage([*ALL_KINDS, ["grant", {"virtual_card_mask": WITHIN}], ["room", "told", BLOCKS]])
    told_in(tenant, [["kernel", "independent", 0], ["tell_sms", "told", "independent"]])
    assert is_whole(sms(tenant, "told"))
    assert tenant("stage.cells()")[0] == 1


ALIVE = "[call('standinCountAlive', byref(made := (c_size_t * 2)()), byref(made, 8)), *made][1:]"

ENDS: dict[str, list[Step]] = {
    "ended": [["end_capture", "g", "s"], ["drop_graph", "g"], ["destroy", "s"]],
    "spoilt": [["spoil_capture", "s"], ["destroy", "s"]],
    "lost with its stream": [["destroy", "s"]],
}


@standin_only("asks the stand-in what is alive")
@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_nothing_is_left_of_a_capture(tenant: Player, end: list[Step]) -> None:
    once: list[Step] = [["stream", "s", False], ["begin_capture", "s"], ["kernel", "s", 0], ["kernel", "s", 0], *end]
    tenant.on_stage(once)
    before = tenant(ALIVE)
    tenant.on_stage(once * 20)
    assert tenant(ALIVE) == before
    tenant.on_stage([["room", "told", BLOCKS]])
    told_in(tenant, [["tell_sms", "told", "independent"]])
    assert sms(tenant, "told") == own_sms(tenant)


@standin_only("asks the stand-in what is alive")
def test_nothing_is_left_of_a_threads_captures(tenant: Player) -> None:
    in_thread: Step = ["in_thread", [["capture", "g", "thread", [["kernel", "thread", 0]]], ["drop_graph", "g"]]]
    _, events = tenant(ALIVE)
    tenant.on_stage([in_thread])
    until(lambda: tenant(ALIVE)[1] == events, "the thread's end")
    streams, _ = tenant(ALIVE)
    tenant.on_stage([in_thread] * 20)
    until(lambda: tenant(ALIVE)[1] == events, "the threads' ends")
    assert tenant(ALIVE)[0] - streams <= 20, "the stand-in keeps the threads' own"
