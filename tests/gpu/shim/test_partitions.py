"""Work runs only on the SMs of the mask while one is granted."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.clients import REAL_DRIVER, Card, standin_only
from tests.gpu.shim.players import (
    BLOCKS,
    BLOCKS_PER_SM,
    SMS_PER_GROUP,
    LoggedWork,
    Player,
    Step,
    count_of,
    fake_client,
    is_whole,
    log,
    player,
    process_page,
    sms_of,
    until,
)

WHOLE = 2**64 - 1
MIB = 1 << 20


@pytest.fixture
def lines(card: Card) -> Path:
    path = card.region.folder / "log"
    card.environment["STANDIN_LOG"] = str(path)
    return path


def kernels(path: Path) -> list[LoggedWork]:
    return [line for line in log(path) if line.kind == "kernel"]


def assert_log_masks(path: Path, masks: list[int]) -> None:
    """Compare the SM masks of all kernels in the log. A real card has no log."""
    if not REAL_DRIVER:
        assert [line.used for line in kernels(path)] == masks


def wide(stream: str) -> Step:
    """A kernel that uses every SM it may."""
    return ["kernel", stream, 0, "add", 20, "plain", 64]


@pytest.fixture
def client(card: Card, lines: Path) -> Player:
    card.attach(0)
    made = player(card)
    made.stage()
    return made


def sms_now(client: Player, stream: str = "legacy", blocks: int = BLOCKS, how: str = "plain") -> set[int]:
    """The SMs that many large blocks run on, as the blocks report them, on a real card too."""
    return set(client(f"stage.burn({stream!r}, {blocks}, {how!r})"))


def sms_seen(client: Player, grant: dict[str, object], stream: str = "legacy") -> set[int]:
    client.on_stage([["grant", grant]])
    return sms_now(client, stream)


def test_mask_selects_the_same_sms_each_time(client: Player) -> None:
    first, second = sms_seen(client, {"mask": 0x01}), sms_seen(client, {"mask": 0x02})
    assert (len(first), len(second)) == (SMS_PER_GROUP, SMS_PER_GROUP)
    assert not first & second
    assert sms_seen(client, {"mask": 0x03}) == first | second
    assert sms_seen(client, {"mask": 0x01}) == first


@pytest.mark.parametrize("stream", ["legacy", "thread", "blocking", "independent"])
def test_all_streams_are_restricted_and_released(client: Player, stream: str) -> None:
    client.on_stage([["stream", "blocking", True], ["stream", "independent", False]])
    whole = sms_seen(client, {}, stream)
    assert is_whole(whole)
    few = sms_seen(client, {"mask": 0x0C}, stream)
    assert len(few) == 2 * SMS_PER_GROUP
    assert few < whole
    assert sms_seen(client, {}, stream) == whole


def test_group_is_the_same_sms_in_two_processes(card: Card, client: Player) -> None:
    card.attach(1)
    other = player(card, 1)
    other.stage()
    assert sms_seen(client, {"mask": 0x10}) == sms_seen(other, {"mask": 0x10})


def test_grid_that_does_not_fit_the_partition_runs_on_the_card(client: Player) -> None:
    """Programs size cooperative grids by the card they see. A refusal would break them."""
    blocks = 33 * SMS_PER_GROUP  # an SM holds 32 blocks of 32 threads
    client.on_stage([["grant", {"mask": 0x01}], ["kernel", "legacy", 0, "add", 20]])
    client.on_stage([["kernel", "legacy", 0, "copy2", 20, "cooperative", blocks], ["kernel", "legacy", 0, "add", 20]])
    assert client("stage.cells()")[0] == 5
    assert sms_now(client, blocks=256) == sms_seen(client, {"mask": 0x01})
    assert client.end() == ""


@pytest.mark.parametrize("stream", ["legacy", "explicit", "thread", "blocking", "independent"])
@pytest.mark.parametrize("how", ["plain", "ex", "cooperative"])
def test_kernels_run_only_on_the_groups_of_the_mask(
    card: Card, client: Player, lines: Path, stream: str, how: str
) -> None:
    masks = [0x01, 0x80, 0x06, 0xF0, 0x01]
    client.on_stage([["stream", "blocking", True], ["stream", "independent", False]])
    seen: list[set[int]] = []
    for mask in masks:
        client.on_stage([["grant", {"mask": mask}]])
        blocks = BLOCKS_PER_SM * count_of(mask) if how == "cooperative" else BLOCKS
        seen += [sms_now(client, stream, blocks, how) for _ in range(2)]
    assert [len(sms) for sms in seen] == [count_of(mask) for mask in masks for _ in range(2)]
    first, second, third, fourth, last = seen[::2]
    assert seen[1::2] == [first, second, third, fourth, last]
    assert first == last
    assert second < fourth
    assert not first & (second | third | fourth)
    assert not third & fourth
    assert process_page(card).moves == len(masks)
    assert process_page(card).mask_now == masks[-1]
    assert_log_masks(lines, [sms_of(mask) for mask in masks for _ in range(2)])


def test_client_uses_its_own_stream_and_the_whole_card_without_a_mask(client: Player, lines: Path) -> None:
    assert len(sms_seen(client, {"mask": 0x03})) == count_of(0x03)
    assert is_whole(sms_seen(client, {}))
    assert_log_masks(lines, [sms_of(0x03), WHOLE])
    assert REAL_DRIVER or kernels(lines)[-1].stream.startswith("legacy")


def test_client_never_leaves_its_virtual_card(card: Card, client: Player, lines: Path) -> None:
    """Without a mask, after a mask has expired, and while neighbours are idle it uses its whole virtual card."""
    card.attach(1)
    grants: list[dict[str, object]] = [
        {"virtual_card_mask": 0x0F},
        {"virtual_card_mask": 0x0F, "mask": 0x03},
        {"virtual_card_mask": 0x0F, "mask": 0x03, "restricted_us": 1},
        {"virtual_card_mask": 0x0F, "mask": 0x03, "neighbours": 0b11, "borrows": True},
    ]
    own, part, *others = [sms_seen(client, grant) for grant in grants]
    assert (len(own), len(part)) == (count_of(0x0F), count_of(0x03))
    assert part < own
    assert others == [own, own]
    assert_log_masks(lines, [sms_of(mask) for mask in (0x0F, 0x03, 0x0F, 0x0F)])


def test_mask_applies_until_restricted_us_is_requested(client: Player, lines: Path) -> None:
    first_us = 10  # assumed time of an untimed kernel
    client.on_stage([["grant", {"mask": 0x03, "restricted_us": first_us + 1}]])
    restricted, *free = [sms_now(client, blocks=BLOCKS + more) for more in range(3)]
    assert len(restricted) == count_of(0x03)
    assert all(map(is_whole, free))
    assert_log_masks(lines, [sms_of(0x03), WHOLE, WHOLE])


def test_client_borrows_the_whole_card_while_neighbours_are_idle(card: Card, client: Player, lines: Path) -> None:
    card.attach(1)
    beside = fake_client(card, 1)
    beside.in_flight = 1
    card.region.write({0: Grant(mask=0x03, neighbours=0b11, borrows=True)})
    assert len(sms_now(client)) == count_of(0x03)
    beside.in_flight = 0
    until(lambda: is_whole(sms_now(client)), "the whole card")
    beside.in_flight = 1
    until(lambda: len(sms_now(client)) == count_of(0x03), "the way back")
    assert REAL_DRIVER or {line.used for line in kernels(lines)} == {sms_of(0x03), WHOLE}


@standin_only("sets the stand-in's memory so that one partition more would not fit")
def test_least_recently_used_partition_is_evicted(card: Card, lines: Path) -> None:
    """Each partition costs card memory."""
    card.attach(0)
    masks = [1 << group for group in range(8)] + [0x03, 0x0C, 0x30, 0xC0]
    more = {
        "STANDIN_GREEN_BYTES": str(64 * MIB),
        "STANDIN_CONTEXT_BYTES": "0",
        "STANDIN_MEMORY": str((8 * 64 + 16) * MIB),
    }
    client = player(card, 0, **more)
    steps: list[Step] = [["stream", "s", True]]
    for mask in masks * 2:
        steps += [["grant", {"mask": mask}], wide("legacy"), ["kernel", "s", 1, "copy2", 10]]
    ran = client.play(steps)
    assert ran["cells"][0] == 2 * len(masks)
    used = [line.used for line in kernels(lines) if line.name == "add"]
    assert used == [sms_of(mask) for mask in masks * 2]
    assert client.end() == ""


@standin_only("makes partitions cost more than the stand-in's card has")
def test_client_runs_unrestricted_with_one_message_when_no_partition_can_be_created(card: Card, lines: Path) -> None:
    card.attach(0)
    client = player(card, STANDIN_GREEN_BYTES=str(1 << 40))
    ran = client.play([["grant", {"mask": 0x01}], wide("legacy"), ["grant", {"mask": 0x02}], wide("legacy")])
    assert ran["cells"][0] == 2
    assert [line.used for line in kernels(lines)] == [WHOLE, WHOLE]
    words = client.end()
    assert words.count("running unrestricted") == 1
    assert process_page(card).mask_now == 0


def test_mask_of_unknown_groups_is_ignored(client: Player, lines: Path) -> None:
    assert is_whole(sms_seen(client, {"mask": 1 << 40}))
    assert_log_masks(lines, [WHOLE])


def test_graph_keeps_its_captured_sms_and_its_order_in_the_stream(client: Player, lines: Path) -> None:
    client.on_stage([["stream", "s", False], ["room", "blocks", BLOCKS]])
    client.on_stage([["capture", "g", "s", [["kernel", "s", 0, "copy2", 20], ["report_sms", "blocks", "s"]]]])
    client.on_stage([["grant", {"mask": 0x01}], ["kernel", "s", 0, "add", 300]])
    client.on_stage([["graph", "s", "g"], ["kernel", "s", 0, "add", 10]])
    assert client("stage.cells()")[0] == 5
    assert is_whole(set(client("stage.sms('blocks')")))
    assert REAL_DRIVER or {line.used for line in log(lines) if line.kind == "graph"} == {WHOLE}


def test_partitions_are_created_again_after_a_context_reset(client: Player, lines: Path) -> None:
    """A driver refuses to reset a context with partitions, so they end first."""
    seen: list[set[int]] = []
    for _ in range(3):
        client.stage()
        client.on_stage([["stream", "s", True]])
        seen += [sms_seen(client, {"mask": 0x03}, stream) for stream in ("s", "legacy", "thread")]
        client("call('cuDevicePrimaryCtxReset_v2', 0)")
    assert len(seen[0]) == count_of(0x03)
    assert seen == [seen[0]] * 9
    assert_log_masks(lines, [sms_of(0x03)] * 9)
    assert client.end() == ""
