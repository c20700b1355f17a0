"""Captures behave as without the shim: what is captured, what continues beside them, and what invalidates them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu.shim.clients import Card, standin_only
from tests.gpu.shim.players import (
    ALL_KINDS,
    BLOCKS,
    FORK,
    JOIN,
    Player,
    Step,
    bare_player,
    count_of,
    player,
    process_page,
)

VIRTUAL_CARD = 0x0C
RELAXED = 2
INVALID_VALUE, TOO_LARGE, UNSUPPORTED, INVALIDATED, UNJOINED = 1, 720, 900, 901, 904
LAUNCH = (
    "cuLaunch{name}(stage.functions['add'], *map(c_uint, ({blocks}, 1, 1, 1024, 1, 1, 0)),"
    " stage.streams['independent']{more})"
)


@pytest.fixture
def both(card: Card) -> list[Player]:
    """A client with a virtual card, and the same program without the shim, each with streams of all kinds."""
    card.attach(0)
    made = [player(card), bare_player(card)]
    for each in made:
        each.stage()
        each.on_stage([*ALL_KINDS, ["grant", {"virtual_card_mask": VIRTUAL_CARD}]])
    return made


def same_answers(both: list[Player], steps: list[Step], *questions: str) -> list[Any]:
    """Return the client's answers, which must equal those of the program without the shim."""
    for each in both:
        each.on_stage(steps)
    answers = [[each(question) for question in questions] for each in both]
    assert answers[0] == answers[1]
    return answers[0]


CAPTURES: dict[str, list[Step]] = {
    "plain": [["kernel", "s", 0, "copy2", 50], ["kernel", "s", 0, "add", 50]],
    "fork and join": [
        ["kernel", "s", 0, "copy2", 50],
        ["record", "forked", "s"],
        ["wait", "side", "forked"],
        ["kernel", "side", 0, "add", 50],
        ["record", "joined", "side"],
        ["wait", "s", "joined"],
    ],
    "memory": [["set", "s", 1, 4], ["kernel", "s", 1, "add", 50], ["copy", "s", 0, 1]],
}


@pytest.mark.parametrize("inside", CAPTURES.values(), ids=list(CAPTURES))
@pytest.mark.parametrize("blocking", [True, False])
def test_capture_gives_the_same_result_as_without_the_shim(card: Card, inside: list[Step], blocking: bool) -> None:
    steps: list[Step] = [
        ["stream", "s", blocking],
        ["stream", "side", blocking],
        ["grant", {"mask": 0x01, "neighbours": 0b11}],
        ["kernel", "s", 0, "add", 300],
        ["kernel", "legacy", 2, "add", 300],
        ["kernel", "side", 3, "add", 300],
        ["grant", {"mask": 0x02, "neighbours": 0b11}],
        ["capture", "g", "s", inside],
        ["graph", "s", "g"],
        ["kernel", "s", 0, "copy2", 10],
        ["grant", {"mask": 0x04}],
        ["graph", "s", "g"],
        ["kernel", "s", 0, "copy2", 10],
        ["record", "done", "s"],
        ["wait", "side", "done"],
        ["kernel", "side", 0, "copy2", 10],
    ]
    card.attach(0)
    assert player(card).play(steps)["cells"] == bare_player(card).play(steps)["cells"]
    assert process_page(card).launches == sum(step[0] == "kernel" for step in steps)  # without captured launches


def test_capture_continues_when_a_joined_stream_is_destroyed(card: Card) -> None:
    """Otherwise later captured work would be treated as launched now."""
    add: Step = ["kernel", "s", 0, "add", 10]
    steps: list[Step] = [
        ["stream", "s", False],
        ["stream", "side", False],
        ["grant", {"mask": 0x02, "neighbours": 0b11}],
        ["capture", "g", "s", [*CAPTURES["fork and join"], ["destroy", "side"], add, add]],
        ["graph", "s", "g"],
        ["stream", "lost", False],
        ["begin_capture", "lost", 2],
        ["destroy", "lost"],  # its capture ends too
        add,
    ]
    card.attach(0)
    assert player(card).play(steps)["cells"] == bare_player(card).play(steps)["cells"]
    assert process_page(card).launches == 1


def test_other_streams_continue_during_a_capture(card: Card) -> None:
    inside: list[Step] = [
        ["kernel", "s", 0, "add", 10],
        ["grant", {"mask": 0x02, "neighbours": 0b11}],
        [
            "in_thread",
            [["kernel", "other", 1, "copy2", 100], ["grant", {"mask": 0x01}], ["kernel", "other", 1, "add", 10]],
        ],
        ["kernel", "s", 0, "copy2", 10],
    ]
    steps: list[Step] = [
        ["stream", "s", True],
        ["stream", "other", True],
        ["grant", {"mask": 0x01}],
        ["kernel", "other", 1, "add", 300],
        ["set_now", "legacy", 2, 3],
        ["capture", "g", "s", inside, 2],
        ["graph", "s", "g"],
        ["kernel", "other", 1, "copy2", 10],
        ["kernel", "legacy", 0, "copy2", 10],
    ]
    card.attach(0)
    ran = player(card).play(steps)
    assert ran["cells"][:3] == [13, 16, 3]  # 0, 1, 4, 13; 0, 1, 4, 5, 16
    assert bare_player(card).play(steps)["cells"] == ran["cells"]


def test_second_capture_may_be_of_a_blocking_stream(both: list[Player]) -> None:
    """While a blocking stream is captured, the legacy stream must not be used, so other streams wait for it before."""
    steps: list[Step] = [
        *[["kernel", "blocking", 0], ["sync"], ["begin_capture", "independent", RELAXED], ["kernel", "legacy", 1]],
        *[["begin_capture", "other", RELAXED], ["kernel", "blocking", 0]],
    ]
    ends = ("stage.code_of_end('other')", "stage.code_of_end('independent')", "stage.cells()[:2]")
    assert same_answers(both, steps, *ends) == [0, 0, [2, 1]]


def test_captured_event_is_ordinary_again_when_the_capture_ended_with_its_stream(both: list[Player]) -> None:
    steps: list[Step] = [
        *[["kernel", "side", 3], ["kernel", "other", 3], ["sync"], ["begin_capture", "blocking", RELAXED]],
        *[["kernel", "blocking", 1], ["record", "event", "blocking"], ["destroy", "blocking"]],
        *[["kernel", "other", 0, "add", 200_000], ["record", "event", "other"]],
        *[["begin_capture", "independent", RELAXED], ["wait", "side", "event"], ["kernel", "side", 0, "copy2"]],
        ["end_capture", "g", "independent"],
    ]
    assert same_answers(both, steps, "stage.cells()[0]") == [4]


def test_capture_ends_when_its_stream_is_destroyed(both: list[Player]) -> None:
    """Its earlier work need not be complete by then: it may wait for the program itself."""
    steps: list[Step] = [
        *[["set", "independent", 1, 0], ["kernel", "side", 0], ["sync"], ["await_value", "side", 1, 1]],
        *[["kernel", "side", 0], ["begin_capture", "side", RELAXED], ["destroy", "side"], ["set", "independent", 1, 1]],
    ]
    assert same_answers(both, steps, "stage.cells()[0]") == [2]


def test_legacy_stream_waits_for_a_stream_destroyed_during_a_capture(both: list[Player]) -> None:
    steps: list[Step] = [
        *[["kernel", "legacy", 3], ["sync"], ["kernel", "blocking", 0, "add", 200_000]],
        *[["begin_capture", "independent", RELAXED], ["destroy", "blocking"], ["end_capture", "g", "independent"]],
        ["kernel", "legacy", 0, "copy2"],
    ]
    assert same_answers(both, steps, "stage.cells()[0]") == [4]


@standin_only("whether a context may be reset in the middle of a capture differs from driver to driver")
def test_streams_move_again_when_a_capture_ended_with_its_context(both: list[Player]) -> None:
    client = both[0]
    client.on_stage([["begin_capture", "independent", RELAXED], ["kernel", "independent", 0]])
    assert client("cuda.cuDevicePrimaryCtxReset_v2(0)") == 0
    client.stage()
    assert len(client(f"stage.burn('legacy', {BLOCKS})")) == count_of(VIRTUAL_CARD)


# What invalidates captures.


def test_launch_is_refused_in_an_invalidated_capture(both: list[Player]) -> None:
    steps: list[Step] = [["begin_capture", "independent"], ["kernel", "independent", 0]]
    again = f"[cuda.{LAUNCH.format(name='Kernel', blocks=1, more=', None, None')} for _ in range(2)]"
    wait = "cuda.cuStreamSynchronize(stage.streams['independent'])"
    assert same_answers(both, steps, wait, again)[1] == [INVALIDATED] * 2


UNCAPTURABLE = {
    "a graph": ("cuGraphLaunch(stage.graphs['inner'], stage.streams['independent'])", UNSUPPORTED),
    "no blocks": (LAUNCH.format(name="Kernel", blocks=0, more=", None, None"), INVALID_VALUE),
    "too many blocks at once": (LAUNCH.format(name="CooperativeKernel", blocks=10**5, more=", None"), TOO_LARGE),
}


@pytest.mark.parametrize(("ask", "refusal"), UNCAPTURABLE.values(), ids=list(UNCAPTURABLE))
def test_uncapturable_call_is_refused_and_invalidates_the_capture(both: list[Player], ask: str, refusal: int) -> None:
    """A refused call must not be tried again: the driver would then report the invalidated capture instead."""
    steps: list[Step] = [["capture", "inner", "blocking", []], ["begin_capture", "independent"]]
    steps += [["kernel", "independent", 0], *FORK, ["kernel", "side", 0]]
    for _ in range(3):
        assert same_answers(both, steps, f"cuda.{ask}", "stage.code_of_end('independent')") == [refusal, INVALIDATED]
    inside: list[Step] = [*steps[2:], *JOIN, ["kernel", "independent", 0]]
    after: list[Step] = [["capture", "g", "independent", inside], ["graph", "independent", "g"]]
    assert same_answers(both, after, "stage.edges('g')", "stage.cells()[0]")[1] == 3


def test_capture_is_unchanged_by_a_refusal_that_does_not_invalidate_it(both: list[Player]) -> None:
    """Whether there is such a refusal differs between drivers."""
    ask = LAUNCH.format(name="Kernel", blocks=1, more=", None, None").replace("stage.functions['add']", "None")
    same_answers(both, [["begin_capture", "independent"]], f"cuda.{ask}", "stage.code_of_end('independent')")


@pytest.mark.parametrize("inside", [[], [["kernel", "side", 0]]], ids=["with nothing on it", "with a kernel on it"])
@pytest.mark.parametrize("join", [[], JOIN], ids=["lost", "joined"])
def test_capture_fails_when_a_destroyed_stream_was_not_joined(
    both: list[Player], inside: list[Step], join: list[Step]
) -> None:
    steps: list[Step] = [["begin_capture", "independent"], ["kernel", "independent", 0], *FORK, *inside, *join]
    steps += [["destroy", "side"], ["kernel", "independent", 0]]
    codes = same_answers(both, steps, "stage.code_of_end('independent')")
    assert codes == [UNJOINED if inside and not join else 0]


def test_destroyed_stream_may_be_joined_afterwards(both: list[Player]) -> None:
    steps: list[Step] = [["begin_capture", "independent"], ["kernel", "independent", 0], *FORK, ["kernel", "side", 0]]
    steps += [JOIN[0], ["destroy", "side"], JOIN[1], ["kernel", "independent", 0]]
    assert same_answers(both, steps, "stage.code_of_end('independent')") == [0]


def test_capture_stays_valid_when_a_virtual_card_is_granted_during_it(card: Card) -> None:
    """The shim must not query streams that it first sees during their capture. It manages them afterwards."""
    kernel: Step = ["kernel", "independent", 0, "copy2"]
    inside: list[Step] = [
        *[
            kernel,
            *FORK,
            ["grant", {"virtual_card_mask": VIRTUAL_CARD}],
            kernel,
            ["set", "side", 1, 7],
            ["kernel", "side", 1],
        ],
        *[["copy", "side", 2, 1], *JOIN, kernel],
    ]
    card.attach(0)
    both = [player(card), bare_player(card)]
    for each in both:
        each.stage()
    steps: list[Step] = [*ALL_KINDS, ["capture", "g", "independent", inside], ["graph", "independent", "g"], ["sync"]]
    same_answers(both, steps, "stage.edges('g')", "stage.cells()")
    seen = [both[0](f"stage.burn({stream!r}, {BLOCKS})") for stream in ("independent", "side")]
    assert [len(sms) for sms in seen] == [count_of(VIRTUAL_CARD)] * 2
