"""A client with a higher priority level gets SMs first, and returns to the priorities that its program chose."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpusquad.gpu.region.card_region import CardRegion
from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.clients import Card, standin_only
from tests.gpu.shim.players import SMS, LoggedWork, Player, Step, log, player

pytestmark = standin_only("looks at when which kernel ran; priorities of streams count under MPS only")
SLOW_US, QUICK_US = 20_000, 500


@pytest.fixture
def lines(card: Card) -> Path:
    path = card.region.folder / "log"
    card.environment |= {"STANDIN_LOG": str(path), "STANDIN_MODE": "mps"}
    return path


def staged(card: Card, slot: int, stream: str = "independent") -> Player:
    made = player(card, slot)
    made.stage()
    if stream in ("independent", "blocking"):
        made.on_stage([["stream", stream, stream == "blocking"]])
    return made


def beside_a_long_kernel(
    card: Card, lines: Path, grant: Grant, stream: str = "independent"
) -> tuple[LoggedWork, LoggedWork]:
    """Run a wide kernel of each client, the long one first."""
    card.attach(0)
    card.attach(1)
    first, second = staged(card, 0, stream), staged(card, 1)
    card.region.write({0: grant, 1: Grant(neighbours=0b11)})
    second.on_stage([["kernel", "independent", 0, "add", SLOW_US, "plain", SMS]])
    first.on_stage([["kernel", stream, 0, "add", QUICK_US, "plain", SMS]])
    for client in (first, second):
        client("stage.cells()")
    quick, slow = sorted((line for line in log(lines) if line.kind == "kernel"), key=lambda line: line.ended_us)
    return quick, slow


def took_us(ran: LoggedWork) -> float:
    return ran.ended_us - ran.started_us


@pytest.mark.parametrize("stream", ["legacy", "thread", "blocking", "independent"])
def test_raised_client_gets_every_sm_it_can_use(card: Card, lines: Path, stream: str) -> None:
    quick, _ = beside_a_long_kernel(card, lines, Grant(neighbours=0b11, priority_level=1), stream)
    assert took_us(quick) == pytest.approx(QUICK_US, rel=0.05)
    assert not quick.stream.startswith(("legacy", "thread"))


@pytest.mark.parametrize("grant", [Grant(neighbours=0b11), Grant(priority_level=1)], ids=["no level", "no neighbours"])
def test_client_shares_sms_without_a_level_or_neighbours(card: Card, lines: Path, grant: Grant) -> None:
    quick, _ = beside_a_long_kernel(card, lines, grant)
    assert took_us(quick) > 1.5 * QUICK_US


def test_level_is_added_to_the_programs_priority_within_the_drivers_range(card: Card, lines: Path) -> None:
    card.attach(0)
    client = staged(card, 0)
    client.on_stage([["stream", "high", False, -5]])
    card.region.write({0: Grant(neighbours=0b11, priority_level=60)})
    both: list[Step] = [["kernel", "high", 0, "add", 20], ["sync"], ["kernel", "independent", 0, "add", 20], ["sync"]]
    client.on_stage(both)
    high, raised = (line.stream for line in log(lines) if line.kind == "kernel")
    client.on_stage([["grant", {}], *both])
    after = [line.stream for line in log(lines) if line.kind == "kernel"][2:]
    assert after[0] == high
    assert after[1] != raised
    assert client.end() == ""


def test_priority_is_unchanged_when_the_daemon_is_gone(card: Card, lines: Path) -> None:
    card.attach(0)
    client = staged(card, 0)
    client.on_stage([["kernel", "independent", 0, "add", 20]])
    card.region = CardRegion(card.region.folder, groups=8, sms_per_group=8, fail_open_ms=50)
    card.region.write({0: Grant(neighbours=0b11, priority_level=2)})
    card.region.beat(time.monotonic_ns() - 1_000_000_000)
    client.on_stage([["kernel", "independent", 0, "add", 20]])
    client("stage.cells()")
    own, later = (line.stream for line in log(lines) if line.kind == "kernel")
    assert own == later
