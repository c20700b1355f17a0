"""API of GPU efficiency and free cards."""

from __future__ import annotations

import pytest

from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import CardStatus
from gpusquad.server.routers.free import counted
from gpusquad.server.schemas.efficiency import EfficiencyView
from gpusquad.server.schemas.free import FreeView
from gpusquad.store import samples
from gpusquad.store.samples import SampleRow
from tests.server.rig import Rig


def test_efficiency_has_the_hours_of_all_nodes(rig: Rig) -> None:
    now_us = rig.clock.now_us()
    with rig.database.write() as c:
        for at_us in range(now_us - 2 * 3600 * US_PER_S, now_us, 60 * US_PER_S):
            samples.append(c, at_us, [SampleRow(f"node0/{at}", busy_ratio=0.0) for at in range(8)])
    answer = rig.get("efficiency?hours=1", "vic").json()
    EfficiencyView.model_validate(answer)
    assert answer["total"]["idle"] == pytest.approx(8 * (answer["until_s"] - answer["since_s"]) / 3600, rel=0.02)
    assert [row["node"] for row in answer["nodes"]] == ["node0"]
    assert answer["slot_s"] == 600


def test_all_hours_are_unknown_without_samples(rig: Rig) -> None:
    answer = rig.get("efficiency", "root").json()
    EfficiencyView.model_validate(answer)
    assert answer["total"]["unknown"] == pytest.approx(sum(answer["total"].values()))


@pytest.mark.parametrize("query", ["hours=0", "hours=169", "hours=x", "hour=1"])
def test_invalid_periods_are_refused(rig: Rig, query: str) -> None:
    assert rig.get(f"efficiency?{query}", "root").status_code == 422


def test_free_cards_and_gangs_are_counted(rig: Rig) -> None:
    answer = rig.get("free?gpus=3", "vic").json()
    FreeView.model_validate(answer)
    assert (answer["free"], answer["usable"], answer["gangs"], answer["largest_block"]) == (8, 6, 2, 8)
    assert rig.get("free", "vic").json()["gangs"] == 8
    assert rig.get("free?gpus=0", "vic").status_code == 422


def test_every_card_is_counted_in_one_state() -> None:
    states = ["free", "free", "busy", "shared", "taken_outside", "cordoned", "cordoned", "drained"]
    cards = [CardStatus(f"n{at % 2}/{at}", f"n{at % 2}", at, "H100", 1, state) for at, state in enumerate(states)]  # pyright: ignore[reportArgumentType]
    found = counted(cards, 2, {"n1/5", "n0/0"})
    FreeView.model_validate(found)
    assert (found["unhealthy"], found["cordoned"]) == (1, 1)
    assert (found["usable"], found["gangs"], found["gangs_across"]) == (0, 0, 1), "one free card on each node"
    states_counted = ("free", "busy", "shared", "unhealthy", "cordoned", "drained", "taken_outside")
    assert sum(found[state] for state in states_counted) == found["total"] == len(cards)
