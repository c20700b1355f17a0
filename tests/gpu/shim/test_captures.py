"""Captures are as without the library: what goes into them, what goes on beside them, and what spoils them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu.shim.playing import (
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
from tests.gpu.shim.tenants import Card, standin_only

WITHIN = 0x0C
RELAXED = 2
INVALID_VALUE, TOO_LARGE, UNSUPPORTED, INVALIDATED, UNJOINED = 1, 720, 900, 901, 904
LAUNCH = (
    "cuLaunch{name}(stage.functions['add'], *map(c_uint, ({blocks}, 1, 1, 1024, 1, 1, 0)),"
    " stage.streams['independent']{more})"
)


@pytest.fixture
def both(card: Card) -> list[Player]:
    """A tenant with a virtual card, and the same program without the library, each with streams of all kinds."""
    card.attach(0)
    made = [player(card), bare_player(card)]
    for one in made:
        one.stage()
        one.on_stage([*ALL_KINDS, ["grant", {"virtual_card_mask": WITHIN}]])
    return made


def told_by(both: list[Player], steps: list[Step], *questions: str) -> list[Any]:
    """What the tenant answers. It must be what the program says without the library."""
    for one in both:
        one.on_stage(steps)
    answers = [[one(question) for question in questions] for one in both]
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
def test_capture_is_as_without_the_library(card: Card, inside: list[Step], blocking: bool) -> None:
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
    assert process_page(card).launches == sum(step[0] == "kernel" for step in steps)  # none of those captured


def test_a_capture_goes_on_when_a_stream_goes_that_was_drawn_into_it(card: Card) -> None:
    """Else all that follows would be taken for work of now."""
    add: Step = ["kernel", "s", 0, "add", 10]
    steps: list[Step] = [
        ["stream", "s", False],
        ["stream", "side", False],
        ["grant", {"mask": 0x02, "neighbours": 0b11}],
        ["capture", "g", "s", [*CAPTURES["fork and join"], ["destroy", "side"], add, add]],
        ["graph", "s", "g"],
        ["stream", "lost", False],
        ["begin_capture", "lost", 2],
        ["destroy", "lost"],  # and with it its capture
        add,
    ]
    card.attach(0)
    assert player(card).play(steps)["cells"] == bare_player(card).play(steps)["cells"]
    assert process_page(card).launches == 1


def test_others_go_on_while_a_stream_is_captured(card: Card) -> None:
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


def test_two_captures_of_which_the_second_is_of_a_blocking_stream(both: list[Player]) -> None:
    """While such a one is captured nobody may touch the legacy stream: who has yet to wait for it does so before."""
    steps: list[Step] = [
        *[["kernel", "blocking", 0], ["sync"], ["begin_capture", "independent", RELAXED], ["kernel", "legacy", 1]],
        *[["begin_capture", "other", RELAXED], ["kernel", "blocking", 0]],
    ]
    ends = ("stage.code_of_end('other')", "stage.code_of_end('independent')", "stage.cells()[:2]")
    assert told_by(both, steps, *ends) == [0, 0, [2, 1]]


def test_an_event_of_a_capture_that_went_with_its_stream_is_an_ordinary_one_again(both: list[Player]) -> None:
    steps: list[Step] = [
        *[["kernel", "side", 3], ["kernel", "other", 3], ["sync"], ["begin_capture", "blocking", RELAXED]],
        *[["kernel", "blocking", 1], ["record", "event", "blocking"], ["destroy", "blocking"]],
        *[["kernel", "other", 0, "add", 200_000], ["record", "event", "other"]],
        *[["begin_capture", "independent", RELAXED], ["wait", "side", "event"], ["kernel", "side", 0, "copy2"]],
        ["end_capture", "g", "independent"],
    ]
    assert told_by(both, steps, "stage.cells()[0]") == [4]


def test_a_stream_goes_at_once_and_with_it_its_capture(both: list[Player]) -> None:
    """What it was given before need not be done by then: it may be waiting for the program itself."""
    steps: list[Step] = [
        *[["set", "independent", 1, 0], ["kernel", "side", 0], ["sync"], ["await_value", "side", 1, 1]],
        *[["kernel", "side", 0], ["begin_capture", "side", RELAXED], ["destroy", "side"], ["set", "independent", 1, 1]],
    ]
    assert told_by(both, steps, "stage.cells()[0]") == [2]


def test_a_stream_that_goes_beside_a_capture_is_waited_for_by_the_legacy_stream(both: list[Player]) -> None:
    steps: list[Step] = [
        *[["kernel", "legacy", 3], ["sync"], ["kernel", "blocking", 0, "add", 200_000]],
        *[["begin_capture", "independent", RELAXED], ["destroy", "blocking"], ["end_capture", "g", "independent"]],
        ["kernel", "legacy", 0, "copy2"],
    ]
    assert told_by(both, steps, "stage.cells()[0]") == [4]


@standin_only("whether a context may be reset in the middle of a capture differs from driver to driver")
def test_a_capture_that_went_with_its_context_holds_nobody_to_where_he_is(both: list[Player]) -> None:
    tenant = both[0]
    tenant.on_stage([["begin_capture", "independent", RELAXED], ["kernel", "independent", 0]])
    assert tenant("cuda.cuDevicePrimaryCtxReset_v2(0)") == 0
    tenant.stage()
    assert len(tenant(f"stage.burn('legacy', {BLOCKS})")) == count_of(WITHIN)


# What spoils them.


def test_a_launch_into_a_spoilt_capture_is_refused(both: list[Player]) -> None:
    steps: list[Step] = [["begin_capture", "independent"], ["kernel", "independent", 0]]
    again = f"[cuda.{LAUNCH.format(name='Kernel', blocks=1, more=', None, None')} for _ in range(2)]"
    wait = "cuda.cuStreamSynchronize(stage.streams['independent'])"
    assert told_by(both, steps, wait, again)[1] == [INVALIDATED] * 2


UNCAPTURABLE = {
    "a graph": ("cuGraphLaunch(stage.graphs['inner'], stage.streams['independent'])", UNSUPPORTED),
    "no blocks": (LAUNCH.format(name="Kernel", blocks=0, more=", None, None"), INVALID_VALUE),
    "too many blocks at once": (LAUNCH.format(name="CooperativeKernel", blocks=10**5, more=", None"), TOO_LARGE),
}


@pytest.mark.parametrize(("ask", "refusal"), UNCAPTURABLE.values(), ids=list(UNCAPTURABLE))
def test_what_cannot_be_captured_is_refused_and_spoils_the_capture(both: list[Player], ask: str, refusal: int) -> None:
    """What a driver once refused there it must not be asked again: it would say that the capture is spoilt."""
    steps: list[Step] = [["capture", "inner", "blocking", []], ["begin_capture", "independent"]]
    steps += [["kernel", "independent", 0], *FORK, ["kernel", "side", 0]]
    for _ in range(3):
        assert told_by(both, steps, f"cuda.{ask}", "stage.code_of_end('independent')") == [refusal, INVALIDATED]
    inside: list[Step] = [*steps[2:], *JOIN, ["kernel", "independent", 0]]
    after: list[Step] = [["capture", "g", "independent", inside], ["graph", "independent", "g"]]
    assert told_by(both, after, "stage.edges('g')", "stage.cells()[0]")[1] == 3


def test_a_refusal_that_spoils_nothing_leaves_nothing(both: list[Player]) -> None:
    """Whether there is such a one differs from driver to driver."""
    ask = LAUNCH.format(name="Kernel", blocks=1, more=", None, None").replace("stage.functions['add']", "None")
    told_by(both, [["begin_capture", "independent"]], f"cuda.{ask}", "stage.code_of_end('independent')")


@pytest.mark.parametrize("inside", [[], [["kernel", "side", 0]]], ids=["with nothing on it", "with a kernel on it"])
@pytest.mark.parametrize("join", [[], JOIN], ids=["lost", "joined"])
def test_a_stream_that_goes_before_its_capture_ends_is_missed_if_nobody_joined_it(
    both: list[Player], inside: list[Step], join: list[Step]
) -> None:
    steps: list[Step] = [["begin_capture", "independent"], ["kernel", "independent", 0], *FORK, *inside, *join]
    steps += [["destroy", "side"], ["kernel", "independent", 0]]
    told = told_by(both, steps, "stage.code_of_end('independent')")
    assert told == [UNJOINED if inside and not join else 0]


def test_a_stream_that_goes_may_be_joined_afterwards(both: list[Player]) -> None:
    steps: list[Step] = [["begin_capture", "independent"], ["kernel", "independent", 0], *FORK, ["kernel", "side", 0]]
    steps += [JOIN[0], ["destroy", "side"], JOIN[1], ["kernel", "independent", 0]]
    assert told_by(both, steps, "stage.code_of_end('independent')") == [0]


def test_a_card_that_comes_in_the_middle_of_a_capture_does_not_spoil_it(card: Card) -> None:
    """Streams that the library first sees while they are captured it may not ask about; it knows them afterwards."""
    kernel: Step = ["kernel", "independent", 0, "copy2"]
    inside: list[Step] = [
        *[
            kernel,
            *FORK,
            ["grant", {"virtual_card_mask": WITHIN}],
            kernel,
            ["set", "side", 1, 7],
            ["kernel", "side", 1],
        ],
        *[["copy", "side", 2, 1], *JOIN, kernel],
    ]
    card.attach(0)
    both = [player(card), bare_player(card)]
    for one in both:
        one.stage()
    steps: list[Step] = [*ALL_KINDS, ["capture", "g", "independent", inside], ["graph", "independent", "g"], ["sync"]]
    told_by(both, steps, "stage.edges('g')", "stage.cells()")
    seen = [both[0](f"stage.burn({stream!r}, {BLOCKS})") for stream in ("independent", "side")]
    assert [len(sms) for sms in seen] == [count_of(WITHIN)] * 2
