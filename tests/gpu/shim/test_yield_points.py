"""Where queued work can pause: before every untimed kernel, and once per ``yield_point_us`` otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.gpu.region.pages import Grant
from tests.gpu.shim.clients import Card, standin_only
from tests.gpu.shim.players import Player, Step, log, make_busy, player

YIELDS = Grant(neighbours=0b11, yield_to=0b10, yield_point_us=10_000)
"""So long that a short kernel stays far below it, also on a busy machine."""
COUNT = 100
SHORT: Step = ["kernel", "legacy", 0, "add", 10]

pytestmark = standin_only("what is queued is read from the stand-in's log")


class YieldPoints:
    """Counts the yield points of a client that yields to an idle one."""

    def __init__(self, card: Card) -> None:
        card.attach(0)
        card.attach(1)
        make_busy(card, 1, in_flight=0)
        card.region.write({0: YIELDS})
        self.card, self._path = card, card.region.folder / "log"

    def client(self) -> Player:
        made = player(self.card, STANDIN_LOG=str(self._path))
        made.stage()
        return made

    def count(self, client: Player, steps: list[Step]) -> int:
        before = self._all()
        client.on_stage([*steps, ["sync"]])
        return self._all() - before

    def _all(self) -> int:
        return sum(ran.kind == "await" for ran in log(Path(self._path))) if self._path.exists() else 0


@pytest.fixture
def yield_points(card: Card) -> YieldPoints:
    return YieldPoints(card)


def test_yield_point_precedes_every_untimed_kernel(yield_points: YieldPoints) -> None:
    new: list[Step] = [["kernel", "legacy", 0, "add", 10, "plain", grid] for grid in range(1, 21)]
    assert yield_points.count(yield_points.client(), new) == len(new)


def test_yield_points_are_rare_between_short_known_kernels(yield_points: YieldPoints) -> None:
    client = yield_points.client()
    client.on_stage([SHORT, ["sync"]] * 5)
    assert yield_points.count(client, [SHORT] * COUNT) < COUNT / 2


def test_kernel_is_known_when_another_process_timed_it(yield_points: YieldPoints) -> None:
    yield_points.client().on_stage([SHORT, ["sync"]] * 5)
    assert yield_points.count(yield_points.client(), [SHORT]) == 0


def test_copy_needs_no_yield_point_before_it_is_timed(yield_points: YieldPoints) -> None:
    assert yield_points.count(yield_points.client(), [["set", "legacy", 0, 1]]) == 0
