"""While streams move between partitions, results and order are those of the program without the shim."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu.shim.clients import REAL_DRIVER, Card, standin_only
from tests.gpu.shim.players import Step, bare_player, player, until
from tests.gpu.shim.random_programs import CELLS, random_program

FEW = tuple({"mask": mask} for mask in (0, 0x01, 0x06, 0xF0))
MANY = tuple({"mask": mask} for mask in (0, 0x01, 0x02, 0x06, 0x0F, 0xF0, 0xFF, 0x80, 0x55, 0xAA, 0x3C, 0x10))
"""More masks than partitions are kept."""
PARTITIONS = 8
"""Number of partitions that are kept."""
WITH_NEIGHBOURS = tuple(
    {"mask": mask, "neighbours": neighbours} for mask in (0, 0x01, 0xF0) for neighbours in (0, 0b11)
)
"""With neighbours, the watcher thread queries events."""
RAISED = tuple(
    {"mask": mask, "neighbours": 0b11, "priority_level": level} for mask in (0, 0, 0x06) for level in (0, 1, 5)
)
"""Streams also move between priorities."""


@pytest.mark.parametrize("grants", [FEW, MANY, WITH_NEIGHBOURS, RAISED], ids=["few", "many", "neighbours", "raised"])
@pytest.mark.parametrize("first", [0, 100])
def test_random_programs_give_the_same_result_while_streams_move(
    card: Card, grants: tuple[dict[str, Any], ...], first: int
) -> None:
    card.attach(0)
    client = player(card)
    for seed in range(first, first + 12):
        program = random_program(seed, 150, grants)
        assert client.play(program.steps, CELLS) == {"cells": program.cells, "seen": program.seen}, f"seed {seed}"
    assert card.region.page(0).moves > 50
    assert client.end() == ""


def test_random_programs_give_the_expected_result_without_the_shim(card: Card) -> None:
    bare = bare_player(card)
    for seed in range(12):
        program = random_program(seed, 150, FEW)
        assert bare.play(program.steps, CELLS) == {"cells": program.cells, "seen": program.seen}, f"seed {seed}"
    bare.end()


LEGACY_ORDER: list[Step] = [
    ["stream", "b", True],
    ["stream", "f", False],
    ["grant", {"mask": 0x01}],
    ["kernel", "b", 0, "add", 3000],
    ["kernel", "legacy", 0, "copy2", 2000],  # after b, for b is blocking
    ["kernel", "b", 0, "copy2", 100],  # after the legacy stream
    ["grant", {"mask": 0x02}],
    ["kernel", "legacy", 0, "add", 2000],
    ["kernel", "thread", 0, "copy2", 100],
    ["grant", {}],
    ["kernel", "legacy", 0, "copy2", 100],
    ["set_now", "legacy", 1, 5],
    ["kernel", "b", 1, "copy2", 100],
]


def test_legacy_stream_is_ordered_with_blocking_streams(card: Card) -> None:
    card.attach(0)
    ran = player(card).play(LEGACY_ORDER)
    assert ran["cells"][:2] == [130, 16]  # 0, 1, 4, 13, 14, 43, 130; 5, 16
    assert bare_player(card).play(LEGACY_ORDER)["cells"] == ran["cells"]


def test_independent_stream_does_not_wait_for_the_legacy_stream(card: Card) -> None:
    """An order that CUDA does not require would cost time. The legacy stream waits for a value."""
    card.attach(0)
    client = player(card)
    client.stage()
    client.on_stage([["stream", "f", False]])
    for mask in (0x02, 0x01):  # so that nothing has to be made or loaded while it waits
        client.on_stage([["grant", {"mask": mask}], ["kernel", "legacy", 3], ["set", "f", 1, 0], ["sync"]])
    client.on_stage([["await_value", "legacy", 2, 1], ["kernel", "legacy", 0]])
    client.on_stage([["grant", {"mask": 0x02}], ["set", "f", 1, 7], ["wait_stream", "f"]])
    assert client("stage.is_done('f')")
    assert not client("stage.is_done('legacy')")
    client.on_stage([["set", "f", 2, 1]])
    assert client("stage.cells()")[:3] == [1, 7, 1]


@pytest.mark.parametrize("wait", ["sync", "wait_stream"])
def test_stream_may_end_while_a_thread_waits_for_it(card: Card, wait: str) -> None:
    """It ends with its thread or its partition. Drivers crash if a stream is destroyed while a thread waits for it."""
    card.attach(0)
    client = player(card)
    client.stage()
    client.on_stage([["stream", "f", False], ["stream", "s", False]])
    for mask in (0, 0x02, 0x01):  # so that nothing has to be made or loaded later
        client.on_stage([["grant", {"mask": mask}], ["kernel", "s", 1], ["set", "f", 3, 0], ["sync"]])
    used = "thread" if wait == "sync" else "s"
    client("Beside(stage, given)", [["await_value", used, 2, 1], ["kernel", used, 0]], keep="user")
    assert client("user.played.wait(10)")
    client("Beside(stage, given)", [["sync"] if wait == "sync" else ["wait_stream", "s"]], keep="waiter")
    assert not client("waiter.played.wait(0.2)")
    if wait == "sync":
        client("user.leave.set()")
        if not REAL_DRIVER:  # there a thread's end waits for what it has queued
            until(lambda: client("user.is_gone()"))
        client.on_stage([["set", "f", 2, 1]])
    else:
        client.on_stage([["grant", {}], ["kernel", "s", 4], ["set", "f", 2, 1]])
        for mask in range(3, 3 + 2 * PARTITIONS):  # others need its place
            client.on_stage([["grant", {"mask": mask}], ["kernel", "legacy", 3]])
    assert client("waiter.played.wait(10)")
    assert client("stage.cells()")[0] == 1


def test_stream_may_end_while_a_thread_in_another_context_waits(card: Card) -> None:
    """As in a program that uses several cards."""
    card.attach(0)
    client = player(card)
    client.stage()
    client("c_void_p()", keep="other")
    client("call('cuCtxCreate_v2', byref(other), c_uint(0), 0)")
    client("stage.enter()")
    client.on_stage([["stream", "f", False], ["grant", {"mask": 0x01}], ["kernel", "thread", 1], ["sync"]])
    client("Beside(stage, given)", [["await_value", "thread", 2, 1], ["kernel", "thread", 0]], keep="user")
    assert client("user.played.wait(10)")
    client("threading.Event()", keep="waited")
    elsewhere = "(call('cuCtxSetCurrent', other), call('cuCtxSynchronize'), waited.set())"
    client(f"threading.Thread(daemon=True, target=lambda: {elsewhere}).start()")
    assert not client("waited.wait(0.2)")
    client("user.leave.set()")
    if not REAL_DRIVER:
        until(lambda: client("user.is_gone()"))
    client.on_stage([["set", "f", 2, 1]])
    assert client("waited.wait(10)")
    assert client("stage.cells()")[0] == 1


@pytest.mark.parametrize("grant", [{"priority_level": 3}, {"mask": 0x06}], ids=["raised", "on a partition"])
@pytest.mark.parametrize("is_primary", [True, False])
def test_default_stream_keeps_its_order_when_moved_back_from_another_context(
    card: Card, grant: dict[str, int], is_primary: bool
) -> None:
    """There the handle of a default stream means another stream."""
    card.attach()
    client = player(card, STANDIN_MODE="mps")
    client.stage()
    client("Stage(beside=stage)", keep="other")
    target, other = ("stage", "other") if is_primary else ("other", "stage")

    def play(stage: str, *steps: Step) -> None:
        client(f"{stage}.enter()")
        client(f"{stage}.play({list(steps)!r})")

    play(target, ["grant", {"neighbours": 0b11, **grant}], ["kernel", "legacy", 0, "add", 100_000], ["grant", {}])
    play(other, ["kernel", "legacy", 7, "add", 1])
    play(target, ["set", "legacy", 0, 4], ["sync"])
    assert client(f"{target}.cells()")[0] == 4


def test_callbacks_keep_their_order_and_get_the_callers_stream(card: Card) -> None:
    steps: list[Step] = [["stream", "b", True]]
    for turn in range(12):
        steps.append(["grant", {"mask": 1 << turn % 3}])
        steps.append(["kernel", "b", 0, "add", 100])
        steps.append(["host" if turn % 2 else "callback", "b", str(turn)])
    steps.append(["wait_stream", "b"])
    card.attach(0)
    seen = player(card).play(steps)["seen"]
    assert seen == [["b", str(turn), True, 0] if turn % 2 == 0 else ["b", str(turn)] for turn in range(12)]


def test_wait_for_a_stream_includes_its_twin(card: Card) -> None:
    card.attach(0)
    for how in (["wait_stream", "s"], ["sync"], ["wait_stream", "legacy"], ["record", "e", "legacy"]):
        client = player(card)
        client.stage()
        client.on_stage([["stream", "s", True], ["grant", {"mask": 0x04}], ["kernel", "s", 0, "add_long"], how])
        if how[0] == "record":
            client.on_stage([["wait_stream", "legacy"]])
        assert client("stage.is_done('s')"), how
        client.end()


@pytest.mark.parametrize("host", [False, True], ids=["card", "host"])
@pytest.mark.parametrize("stream", ["legacy", "s", "thread"])
def test_free_waits_for_work_on_moved_streams(card: Card, stream: str, host: bool) -> None:
    card.attach(0)
    client = player(card)
    client.stage()
    client.on_stage([["stream", "s", False], ["grant", {"mask": 0x02}], ["free_in_use", stream, host], ["sync"]])
    assert client("stage.cells()")[0] == 0, "no fault"


HOLDS_THREADS = standin_only("a real driver holds other threads while it copies to memory that is not pinned")


@pytest.mark.parametrize(
    "how", [pytest.param("read", marks=HOLDS_THREADS), pytest.param("fetch", marks=HOLDS_THREADS), "fetch_pinned"]
)
def test_copy_to_the_host_may_wait_for_a_later_launch_of_another_thread(card: Card, how: str) -> None:
    reader: list[Step] = [["await_value", "legacy", 1, 1], [how, "legacy", 1]]
    bringer: list[Step] = [["kernels", 100, "f", 2], ["kernel", "legacy", 0], ["set", "f", 1, 1]]
    steps: list[Step] = [["grant", {"mask": 0x03}], ["stream", "f", False], ["pin"]]
    steps += [["kernel", "legacy", 0], ["kernel", "f", 2], ["set", "f", 3, 1], ["sync"]]  # nothing is new afterwards
    card.attach(0)
    result = player(card).play([*steps, ["together", [reader, bringer]]])
    assert (result["cells"][:3], result["seen"]) == ([2, 1, 101], [1])


def test_no_launch_is_lost_when_threads_launch_and_move_at_once(card: Card) -> None:
    masks = [0, 1, 2, 4, 8, 16, 32, 64, 128, 3, 6]
    parts: list[list[Step]] = []
    for number in range(4):
        stream = "thread" if number % 2 else "shared"
        part: list[Step] = []
        for turn in range(60):
            part.append(["grant", {"mask": masks[(turn + number) % len(masks)]}])
            part.append(["kernel", stream, number, "copy2", 20])
            if turn % 10 == 0:
                part.append(["kernel", "legacy", 4 + number, "add", 10])
        parts.append(part)
    expected = 0
    for _ in range(60):
        expected = (expected * 3 + 1) & 0xFFFFFFFF
    card.attach(0)
    ran = player(card).play([["stream", "shared", True], ["grant", {"mask": 1}], ["together", parts]])
    assert ran["cells"] == [expected] * 4 + [6] * 4
