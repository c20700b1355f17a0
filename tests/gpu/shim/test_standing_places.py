"""Where queued work can be made to stand still: before all that nobody has timed, and once in so much of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.playing import Player, Step, log, make_busy, player
from tests.gpu.shim.tenants import Card, standin_only

YIELDS = Grant(neighbours=0b11, yield_to=0b10, yield_point_us=10_000)
"""So seldom that a short kernel stays far below it on a busy machine too."""
COUNT = 100
SHORT: Step = ["kernel", "legacy", 0, "add", 10]

pytestmark = standin_only("what is queued is read from the stand-in's log")


class Places:
    """Of a tenant that yields to one who is idle."""

    def __init__(self, card: Card) -> None:
        card.attach(0)
        card.attach(1)
        make_busy(card, 1, in_flight=0)
        card.region.write({0: YIELDS})
        self.card, self._path = card, card.region.folder / "log"

    def tenant(self) -> Player:
        made = player(self.card, STANDIN_LOG=str(self._path))
        made.stage()
        return made

    def count(self, tenant: Player, steps: list[Step]) -> int:
        before = self._all()
        tenant.on_stage([*steps, ["sync"]])
        return self._all() - before

    def _all(self) -> int:
        return sum(ran.kind == "await" for ran in log(Path(self._path))) if self._path.exists() else 0


@pytest.fixture
def places(card: Card) -> Places:
    return Places(card)


def test_there_is_one_before_each_kernel_that_nobody_has_timed(places: Places) -> None:
    new: list[Step] = [["kernel", "legacy", 0, "add", 10, "plain", grid] for grid in range(1, 21)]
    assert places.count(places.tenant(), new) == len(new)


def test_there_is_not_one_before_each_that_is_known(places: Places) -> None:
    tenant = places.tenant()
    tenant.on_stage([SHORT, ["sync"]] * 5)
    assert places.count(tenant, [SHORT] * COUNT) < COUNT / 2


def test_what_another_process_has_timed_is_known(places: Places) -> None:
    places.tenant().on_stage([SHORT, ["sync"]] * 5)
    assert places.count(places.tenant(), [SHORT]) == 0


def test_of_a_copy_its_size_tells_enough(places: Places) -> None:
    assert places.count(places.tenant(), [["set", "legacy", 0, 1]]) == 0
