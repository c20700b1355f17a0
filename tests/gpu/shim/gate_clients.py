"""Clients that may be held at the gate, and what their pages report."""

from __future__ import annotations

from tests.gpu.shim.clients import Card
from tests.gpu.shim.players import Player, Step, player, process_page, until

UNKNOWN_US = 10
"""Assumed time of a kernel that was never timed."""


def staged(card: Card, slot: int = 0, **more: str) -> Player:
    card.attach(slot)
    client = player(card, slot, **more)
    client.stage()
    return client


def begin(client: Player, steps: list[Step]) -> None:
    """Start the steps without waiting for their end, because the process may be held."""
    client.send("stage.play(given)", steps)


def until_held(card: Card, slot: int = 0) -> None:
    until(lambda: process_page(card, slot).waiting == 1, "a process at the gate")


def requested_us(card: Card, slot: int = 0) -> int:
    return card.region.page(slot).requested_us
