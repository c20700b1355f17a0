"""Contract of every inventory; checked with simulated cards, a fake NVML and real cards."""

from __future__ import annotations

from gpusquad.agent.inventory import CardReading, Inventory
from gpusquad.model.cluster import Card, Cluster, Node

RATIOS = ("utilisation_ratio", "memory_utilisation_ratio")
COUNTS = ("memory_used_bytes", "memory_total_bytes", "power_w", "power_limit_w", "sm_clock_mhz", "memory_clock_mhz",
          "ecc_corrected", "ecc_uncorrected")  # fmt: skip


def check(inventory: Inventory) -> None:
    """Check the card facts and several readings; the cards stay the same throughout."""
    before = tuple(inventory.cards)
    check_facts(inventory)
    inventory.watch(lambda card, cause: None)
    for _ in range(3):
        readings = inventory.read(())
        assert [reading.id for reading in readings] == [card.id for card in before]
        for reading in readings:
            check_reading(reading)
    assert tuple(inventory.cards) == before
    inventory.close()


def check_facts(inventory: Inventory) -> None:
    assert isinstance(inventory.simulated, bool)
    assert isinstance(inventory.driver, str)
    assert [card.index for card in inventory.cards] == list(range(len(inventory.cards)))
    for card in inventory.cards:
        assert card.id
        assert card.model
        assert card.memory_bytes > 0
        assert card.sms > 0
        assert card.domain >= 0
    # The scheduler can use them unchanged.
    cards = tuple(Card(card.id, card.model, card.memory_bytes, card.sms, card.domain) for card in inventory.cards)
    assert Cluster((Node("n", cards),)).gpus == len(cards)


def check_reading(reading: CardReading) -> None:
    for name in RATIOS:
        value = getattr(reading, name)
        assert value is None or 0.0 <= value <= 1.0, name
    for name in COUNTS:
        value = getattr(reading, name)
        assert value is None or value >= 0, name
    if reading.memory_used_bytes is not None and reading.memory_total_bytes is not None:
        assert reading.memory_used_bytes <= reading.memory_total_bytes
    for process in reading.processes or ():
        assert process.pid >= 0
        assert process.utilisation_ratio is None or 0.0 <= process.utilisation_ratio <= 1.0
    assert reading.trouble is None or reading.trouble
