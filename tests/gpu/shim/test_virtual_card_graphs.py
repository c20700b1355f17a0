"""Graphs captured on a virtual card stay on its SMs and are otherwise as without the shim."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu.shim.clients import Card, standin_only
from tests.gpu.shim.players import (
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

VIRTUAL_CARD = 0x0C
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
INVALIDATED = 901


@pytest.fixture
def client(card: Card) -> Player:
    card.attach(0)
    made = player(card)
    made.stage()
    made.on_stage([*ALL_KINDS, ["grant", {"virtual_card_mask": VIRTUAL_CARD}]])
    return made


def capture_and_launch(client: Player, inside: list[Step], stream: str = "independent", mode: int = GLOBAL) -> None:
    """Capture the steps on a stream and launch the graph there."""
    client.on_stage([["capture", "g", stream, inside, mode], ["graph", stream, "g"], ["sync"]])


def sms(client: Player, room: str) -> set[int]:
    return set(client(f"stage.sms({room!r})"))


def uncaptured_sms(client: Player, stream: str = "legacy") -> set[int]:
    """The SMs of the virtual card, as blocks report them that were not captured."""
    return set(client(f"stage.burn({stream!r}, {BLOCKS})"))


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
@pytest.mark.parametrize("how", ["plain", "ex", "cooperative"])
@pytest.mark.parametrize("stream", ["thread", "blocking", "independent"])
def test_captured_kernels_run_on_the_virtual_card(client: Player, stream: str, how: str, mode: int) -> None:
    blocks = BLOCKS_PER_SM * count_of(VIRTUAL_CARD) if how == "cooperative" else BLOCKS
    client.on_stage([["room", "blocks", blocks]])
    capture_and_launch(client, [["report_sms", "blocks", stream, how]], stream, mode)
    seen = sms(client, "blocks")
    assert len(seen) == count_of(VIRTUAL_CARD)
    assert seen == uncaptured_sms(client)
    assert client.end() == ""


def test_graph_uses_the_whole_virtual_card_whatever_the_mask(client: Player) -> None:
    """A graph cannot be moved later, and it never leaves the virtual card."""
    client.on_stage([["room", "blocks", BLOCKS], ["grant", {"virtual_card_mask": VIRTUAL_CARD, "mask": 0x04}]])
    capture_and_launch(client, [["report_sms", "blocks", "independent"]])
    part = uncaptured_sms(client, "independent")
    assert len(part) == SMS_PER_GROUP
    assert part < (seen := sms(client, "blocks"))
    assert len(seen) == count_of(VIRTUAL_CARD)


def test_forked_capture_runs_on_the_virtual_card(client: Player) -> None:
    client.on_stage([["room", name, BLOCKS] for name in ("before", "aside", "beside", "after")])
    inside: list[Step] = [
        ["report_sms", "before", "independent"],
        *FORK,
        ["report_sms", "aside", "side"],
        ["report_sms", "beside", "independent"],
        *JOIN,
        ["report_sms", "after", "independent"],
    ]
    capture_and_launch(client, inside)
    own = uncaptured_sms(client)
    assert len(own) == count_of(VIRTUAL_CARD)
    assert [sms(client, name) for name in ("before", "aside", "beside", "after")] == [own] * 4


@pytest.mark.parametrize("stream", ["thread", "independent"])
def test_concurrent_captures_stay_separate(client: Player, stream: str) -> None:
    client.on_stage([["room", "one", BLOCKS], ["room", "other", BLOCKS]])
    client.on_stage([["begin_capture", stream, RELAXED], ["begin_capture", "blocking", RELAXED]])
    for _ in range(3):
        client.on_stage([["report_sms", "one", stream], ["report_sms", "other", "blocking"]])
    client.on_stage([["end_capture", "g", stream], ["kernel", "blocking", 0], ["end_capture", "h", "blocking"]])
    client.on_stage([["graph", stream, "g"], ["sync"], ["graph", "blocking", "h"], ["sync"]])
    assert [client(f"stage.edges({graph!r})") for graph in "gh"] == [2, 3]
    own = uncaptured_sms(client)
    assert [sms(client, "one"), sms(client, "other")] == [own, own]


@pytest.mark.parametrize("mode", [THREAD_LOCAL, RELAXED])
def test_threads_capture_concurrently(client: Player, mode: int) -> None:
    """On their own default streams and on streams that they do not share."""
    rooms = ["a", "b", "c"]
    client.on_stage([["room", room, BLOCKS] for room in rooms])
    streams = ["thread", "blocking", "independent"]
    parts = [
        [["capture", room, stream, [["report_sms", room, stream]] * 5, mode]]
        for room, stream in zip(rooms, streams, strict=True)
    ]
    client.on_stage([["together", parts]])
    for room in rooms:
        client.on_stage([["graph", "independent", room], ["sync"]])
    own = uncaptured_sms(client)
    assert [sms(client, room) for room in rooms] == [own] * 3


def test_kernel_of_another_thread_is_captured_on_the_virtual_card(client: Player) -> None:
    client.on_stage([["room", "blocks", BLOCKS]])
    capture_and_launch(client, [["in_thread", [["report_sms", "blocks", "independent"]]]], mode=RELAXED)
    assert sms(client, "blocks") == uncaptured_sms(client)


def test_concurrent_launches_into_one_capture_are_serialised(client: Player) -> None:
    """Work captured while a kernel is on its detour is not lost."""
    count = 150
    client("sys.setswitchinterval(1e-6)")
    adds, sets = [["kernel", "independent", 0]] * count, [["set", "independent", 1, 7]] * count
    records: list[Step] = [["record", "blocks", "independent"]] * count
    for _ in range(10):
        client.on_stage([["begin_capture", "independent", RELAXED], ["together", [adds, sets, sets, records]]])
        client.on_stage([["end_capture", "g", "independent"]])
        assert (client("stage.edges('g')"), client("stage.ends('g')")) == (3 * count - 1, 1)
    client.on_stage([["graph", "independent", "g"], ["sync"]])
    assert client("stage.cells()")[:2] == [count, 7]


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
def test_graph_has_the_same_edges_and_result_as_without_the_shim(card: Card, inside: list[Step], turns: int) -> None:
    """The second of two captures is compared, so that leftovers of the first would show."""
    around: list[Step] = [
        ["kernel", "independent", 0, "add"],
        ["graph", "independent", "g"],
        ["kernel", "independent", 0],
    ]
    card.attach(0)
    results: list[dict[str, Any]] = []
    for client in (player(card), bare_player(card)):
        client.stage()
        client.on_stage([*ALL_KINDS, ["grant", {"virtual_card_mask": VIRTUAL_CARD}]])
        client.on_stage([["capture", "first", "independent", inside], ["capture", "g", "independent", inside]])
        client.on_stage(around * turns)
        results.append({"edges": client("stage.edges('g')"), "cells": client("stage.cells()")})
        assert client.end() == ""
    assert results[0] == results[1]


def test_capture_dependencies_are_the_same_as_without_the_shim(card: Card) -> None:
    """Programs read and change the dependencies to insert nodes of their own."""
    kernel: Step = ["kernel", "independent", 0]
    inside: list[Step] = [
        *[
            ["note_dependencies", "independent"],
            kernel,
            ["note_dependencies", "independent"],
            ["keep_dependencies", "independent"],
        ],
        *[kernel, kernel, ["set_dependencies", "independent"], ["note_dependencies", "independent"]],
        *[kernel, ["note_dependencies", "independent"], *FORK, ["kernel", "side", 1], *JOIN],
        *[["note_dependencies", "independent"], kernel, ["note_dependencies", "independent"]],
    ]
    card.attach(0)
    results: list[Any] = []
    for client in (player(card), bare_player(card)):
        client.stage()
        client.on_stage(
            [*ALL_KINDS, ["grant", {"virtual_card_mask": VIRTUAL_CARD}], ["capture", "g", "independent", inside]]
        )
        results.append([client("stage.seen"), client("stage.edges('g')")])
    assert results[0] == results[1]
    assert results[0][0][:4] == [0, 1, 1, 1]


def test_capture_ends_when_the_program_removed_dependencies(client: Player) -> None:
    kernel: Step = ["kernel", "independent", 0]
    capture_and_launch(
        client, [kernel, ["keep_dependencies", "independent"], kernel, ["set_dependencies", "independent"]]
    )
    assert client("stage.edges('g')") == 1
    assert client("stage.cells()")[0] == 2


def test_next_capture_is_unaffected_by_an_invalidated_one(client: Player) -> None:
    client.on_stage([["room", "blocks", BLOCKS]])
    for _ in range(3):
        client.on_stage([["begin_capture", "independent"], ["kernel", "independent", 0], *FORK, ["kernel", "side", 0]])
        first, end = client("stage.invalidate_capture('independent')")
        assert (first != 0, end) == (True, INVALIDATED)
    capture_and_launch(client, [["kernel", "independent", 0], ["report_sms", "blocks", "independent"]])
    assert sms(client, "blocks") == uncaptured_sms(client)
    assert client("stage.cells()")[0] == 1
    assert client.end() == ""


def test_graph_uses_all_sms_without_a_virtual_card(client: Player) -> None:
    for grant in ({}, {"mask": 0x03}):
        client.on_stage([["grant", grant], ["room", "blocks", BLOCKS]])
        capture_and_launch(client, [["report_sms", "blocks", "independent"]])
        assert is_whole(sms(client, "blocks"))


def test_partition_of_a_graph_is_never_evicted(client: Player) -> None:
    """Partitions are evicted for new ones, except those that a graph runs on."""
    within = 0x0F
    client.on_stage([["grant", {"virtual_card_mask": within}], ["room", "blocks", BLOCKS]])
    client.on_stage([["capture", "g", "independent", [["report_sms", "blocks", "independent"]]]])
    for mask in range(1, within):
        client.on_stage([["grant", {"virtual_card_mask": within, "mask": mask}], ["kernel", "independent", 0]])
    client.on_stage([["graph", "independent", "g"], ["sync"]])
    assert len(sms(client, "blocks")) == count_of(within)
    assert client("stage.cells()")[0] == within - 1


def test_captured_grid_that_does_not_fit_the_virtual_card_runs_on_the_card(client: Player) -> None:
    """Like a launch that is not captured. A program that sized it by the card would fail otherwise."""
    blocks = BLOCKS_PER_SM * (count_of(VIRTUAL_CARD) + SMS_PER_GROUP)
    client.on_stage([["room", "blocks", blocks]])
    capture_and_launch(client, [["kernel", "independent", 0], ["report_sms", "blocks", "independent", "cooperative"]])
    assert len(sms(client, "blocks")) > count_of(VIRTUAL_CARD)
    assert client("stage.cells()")[0] == 1


def test_captured_kernel_loses_programmatic_serialization(client: Player) -> None:
    """It stays on the virtual card, and the graph has plain edges only."""
    client.on_stage([["room", "blocks", BLOCKS]])
    capture_and_launch(client, [["kernel", "independent", 0], ["report_sms", "blocks", "independent", "overlapping"]])
    assert client("stage.edges('g')") == 1
    assert sms(client, "blocks") == uncaptured_sms(client)


@standin_only("what may be captured with such an event differs from driver to driver")
def test_captured_kernel_with_an_event_stays_on_the_callers_stream(client: Player) -> None:
    client.on_stage([["room", "blocks", BLOCKS]])
    capture_and_launch(client, [["kernel", "independent", 0], ["report_sms", "blocks", "independent", "signalling"]])
    assert is_whole(sms(client, "blocks"))


@standin_only("a driver builds clusters of this size only for kernels with an attribute")
def test_captured_large_cluster_stays_on_the_callers_stream(client: Player) -> None:
    client.on_stage([["room", "small", BLOCKS], ["room", "large", BLOCKS]])
    capture_and_launch(
        client, [["report_sms", "small", "independent", "cluster"], ["report_sms", "large", "independent", "large"]]
    )
    assert sms(client, "small") == uncaptured_sms(client)
    assert is_whole(sms(client, "large"))


def test_capture_into_the_programs_own_graph_takes_no_detour(client: Player) -> None:
    """It may be the body of a conditional node, whose kernels must all belong to one context."""
    client.on_stage([["room", "blocks", BLOCKS], ["room", "aside", BLOCKS], ["begin_capture_to_graph", "independent"]])
    client.on_stage([["report_sms", "blocks", "independent"], *FORK, ["report_sms", "aside", "side"], *JOIN])
    client.on_stage([["end_capture", "g", "independent"], ["graph", "independent", "g"], ["sync"]])
    assert is_whole(sms(client, "blocks"))
    assert is_whole(sms(client, "aside"))
    client.on_stage([["room", "blocks", BLOCKS]])
    capture_and_launch(client, [["report_sms", "blocks", "independent"]])
    assert sms(client, "blocks") == uncaptured_sms(client)


def test_graphs_are_captured_after_a_context_reset(client: Player) -> None:
    for _ in range(3):
        client.stage()
        client.on_stage([*ALL_KINDS, ["room", "blocks", BLOCKS]])
        capture_and_launch(client, [["report_sms", "blocks", "independent"]])
        assert len(sms(client, "blocks")) == count_of(VIRTUAL_CARD)
        client("call('cuDevicePrimaryCtxReset_v2', 0)")
    assert client.end() == ""


@standin_only("makes partitions cost more than the stand-in's card has")
def test_captured_kernel_runs_on_the_card_when_no_partition_can_be_created(card: Card) -> None:
    card.attach(0)
    client = player(card, STANDIN_GREEN_BYTES=str(1 << 40))
    client.stage()
    client.on_stage([*ALL_KINDS, ["grant", {"virtual_card_mask": VIRTUAL_CARD}], ["room", "blocks", BLOCKS]])
    capture_and_launch(client, [["kernel", "independent", 0], ["report_sms", "blocks", "independent"]])
    assert is_whole(sms(client, "blocks"))
    assert client("stage.cells()")[0] == 1


ALIVE = "[call('standinCountAlive', byref(made := (c_size_t * 2)()), byref(made, 8)), *made][1:]"

ENDS: dict[str, list[Step]] = {
    "ended": [["end_capture", "g", "s"], ["drop_graph", "g"], ["destroy", "s"]],
    "invalidated": [["invalidate_capture", "s"], ["destroy", "s"]],
    "lost with its stream": [["destroy", "s"]],
}


@standin_only("asks the stand-in what is alive")
@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_capture_leaves_no_streams_or_events(client: Player, end: list[Step]) -> None:
    once: list[Step] = [["stream", "s", False], ["begin_capture", "s"], ["kernel", "s", 0], ["kernel", "s", 0], *end]
    client.on_stage(once)
    before = client(ALIVE)
    client.on_stage(once * 20)
    assert client(ALIVE) == before
    client.on_stage([["room", "blocks", BLOCKS]])
    capture_and_launch(client, [["report_sms", "blocks", "independent"]])
    assert sms(client, "blocks") == uncaptured_sms(client)


@standin_only("asks the stand-in what is alive")
def test_captures_of_a_thread_leave_no_events(client: Player) -> None:
    in_thread: Step = ["in_thread", [["capture", "g", "thread", [["kernel", "thread", 0]]], ["drop_graph", "g"]]]
    _, events = client(ALIVE)
    client.on_stage([in_thread])
    until(lambda: client(ALIVE)[1] == events, "the thread's end")
    streams, _ = client(ALIVE)
    client.on_stage([in_thread] * 20)
    until(lambda: client(ALIVE)[1] == events, "the threads' ends")
    assert client(ALIVE)[0] - streams <= 20, "the stand-in keeps the threads' own"
