"""Interference between jobs on one card: learned from their measured speed and used for placement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from gpusquad.model.interference import Sharing
from gpusquad.model.job import Job
from gpusquad.model.units import US_PER_S
from gpusquad.server.services.sharing.interference_learning import SAVE_US, SETTLE_US, STRETCH_US
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from tests.server.services.world import ADA, SECOND_US, World

LESSON_S = (SETTLE_US + STRETCH_US) // US_PER_S + 2
HALF = {"share": {"sm": 0.5}}


class RecordingModel:
    """Records the rates it learns."""

    sharing: Sharing = "mps"

    def __init__(self) -> None:
        self.lessons: list[tuple[str, tuple[str, ...], float]] = []

    def __call__(self, own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        return 0.5

    def learn(self, own: Job, others: Sequence[Job], gpu: str, ratio: float, seconds: float) -> None:
        self.lessons.append((own.app, tuple(other.app for other in others), round(ratio, 2)))

    def curve(self, own: Job, gpu: str = "") -> tuple[tuple[int, float], ...]:
        return ()

    def solo_per_s(self, own: Job, gpu: str = "") -> float:
        return 12.5

    def beside(self, own: Job, others: Iterable[Job], gpu: str = "") -> dict[str, float]:
        return {other.app: self(own, [other], gpu) for other in others}

    def dump(self) -> dict[str, Any]:
        return {"lessons": len(self.lessons)}


class FakeInterference:
    def __init__(self) -> None:
        self.model = RecordingModel()
        self.saved: list[dict[str, Any]] = []
        self.is_new = False

    @property
    def is_empty(self) -> bool:
        return not self.model.lessons

    def refresh(self) -> bool:
        return self.is_new

    def save(self, learned: dict[str, Any]) -> None:
        self.saved.append(learned)


class Cards:
    """A service whose runs report steps at given speeds."""

    def __init__(self, tmp_path: Any, grid: str = "1x1") -> None:
        self.known = FakeInterference()
        self.world = World(tmp_path, grid, known=self.known)
        self.steps: dict[str, float] = {}
        self.steps_per_s: dict[str, float] = {}

    def submit(self, app: str, steps_per_s: float, **request: Any) -> str:
        file = {"command": ["train", app], "app": app, "estimate": 10_000} | (request or HALF)
        job_id = self.world.scheduler.submit(expand(check(file)), ADA)[0].id
        self.world.settle()
        self.steps[job_id], self.steps_per_s[job_id] = 0.0, steps_per_s
        return job_id

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.world.clock.at_us += SECOND_US
            now_us = self.world.clock.at_us
            for job_id, steps_per_s in self.steps_per_s.items():
                self.steps[job_id] += steps_per_s
            runs = [{"job": job_id, "attempt": self.world.scheduler.row(job_id).attempt, "step": int(step),
                     "total": None, "progress_at_us": now_us, "last_output_us": now_us, "cpu_ratio": 1.0}
                    for job_id, step in self.steps.items()]  # fmt: skip
            self.world.scheduler.watcher.hear({"kind": "samples", "at_us": now_us, "cards": [], "runs": runs})
            self.world.settle()


@pytest.fixture
def cards(tmp_path) -> Cards:
    return Cards(tmp_path)


def test_rate_beside_a_neighbour_is_learned_when_the_solo_speed_is_known(cards: Cards) -> None:
    first = cards.submit("vgg16", 10)
    cards.run(LESSON_S)
    cards.submit("stream", 100)
    cards.steps_per_s[first] = 4
    cards.run(LESSON_S)
    assert cards.known.model.lessons == [("vgg16", ("stream",), 0.4)]


def test_nothing_is_learned_when_the_solo_speed_is_unknown(cards: Cards) -> None:
    cards.submit("vgg16", 10)
    cards.submit("stream", 100)
    cards.run(2 * LESSON_S)
    assert not cards.known.model.lessons


def test_time_after_a_neighbours_arrival_is_left_out(cards: Cards) -> None:
    first = cards.submit("vgg16", 10)
    cards.run(LESSON_S)
    cards.submit("stream", 100)
    cards.steps_per_s[first] = 0.1  # while the new job warms up
    cards.run(SETTLE_US // US_PER_S - 1)
    cards.steps_per_s[first] = 4
    cards.run(LESSON_S)
    assert cards.known.model.lessons == [("vgg16", ("stream",), 0.4)]


def test_core_gets_the_model_with_the_first_lesson(cards: Cards) -> None:
    first = cards.submit("vgg16", 10)
    cards.run(LESSON_S)
    assert cards.world.scheduler._context.state.rate is None
    cards.submit("stream", 100)
    cards.steps_per_s[first] = 4
    cards.run(LESSON_S)
    assert cards.world.scheduler._context.state.rate is cards.known.model


def test_core_gets_the_model_when_new_measurements_arrive(cards: Cards) -> None:
    cards.submit("vgg16", 10)
    cards.known.model.lessons.append(("", (), 1.0))
    cards.known.is_new = True
    cards.run(61)
    assert cards.world.scheduler._context.state.rate is cards.known.model


def test_learned_rates_are_saved_periodically_and_at_close(cards: Cards) -> None:
    first = cards.submit("vgg16", 10)
    cards.run(LESSON_S)
    cards.submit("stream", 100)
    cards.steps_per_s[first] = 4
    cards.run(LESSON_S)
    cards.run(2 * SAVE_US // US_PER_S + 2)
    saves = len(cards.known.saved)
    assert saves >= 1
    cards.run(LESSON_S)
    cards.world.scheduler.close()
    assert cards.known.saved[-1] == {"lessons": len(cards.known.model.lessons)}
    assert len(cards.known.saved) == saves + 1


def test_nothing_is_learned_from_runs_on_several_cards(tmp_path) -> None:
    cards = Cards(tmp_path, "1x2")
    wide = cards.submit("vgg16", 10, count=2, share={"sm": 0.5})
    cards.run(LESSON_S)
    cards.submit("stream", 100)
    cards.steps_per_s[wide] = 4
    cards.run(LESSON_S)
    assert not cards.known.model.lessons


# -- placement -------------------------------------------------------------------------------------------------------


class KnownPairs(FakeInterference):
    """An interference model with fixed rates of pairs."""

    is_empty = False  # type: ignore[assignment]

    def __init__(self, ratios: dict[tuple[str, str], float]) -> None:
        super().__init__()

        class Fixed(RecordingModel):
            def __call__(self, own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
                return min((ratios[own.app, other.app] for other in others), default=1.0)

        self.model = Fixed()


GOOD, BAD = 0.95, 0.3
RATIOS = {("a", "a"): BAD, ("b", "b"): BAD, ("a", "b"): GOOD, ("b", "a"): GOOD,
          **{pair: BAD for app in "abc" for pair in ((app, "c"), ("c", app))}}  # fmt: skip


@pytest.mark.parametrize("mode", ["jct", "slo", "hybrid"])
def test_jobs_are_placed_beside_the_neighbours_with_least_interference(tmp_path, mode: str) -> None:
    world = World(tmp_path, "1x2", mode=mode, known=KnownPairs(RATIOS))

    def submit(app: str) -> str:
        file = {"command": ["train"], "app": app, "estimate": 1000} | HALF
        job_id = world.scheduler.submit(expand(check(file)), ADA)[0].id
        world.settle()
        return job_id

    def card(job_id: str) -> str:
        placement = world.scheduler.row(job_id).placement
        assert placement is not None
        return placement["tasks"][0]["cards"][0]

    first, second = submit("a"), submit("b")
    third, fourth = submit("b"), submit("a")
    pairs = {card(job): set() for job in (first, second)}
    for job, app in ((first, "a"), (second, "b"), (third, "b"), (fourth, "a")):
        pairs[card(job)].add(app)
    assert list(pairs.values()) == [{"a", "b"}, {"a", "b"}]


def test_job_without_gain_from_sharing_waits_with_reason_and_reservation(tmp_path) -> None:
    world = World(tmp_path, "1x1", mode="jct", known=KnownPairs(RATIOS))
    files = [{"command": ["train"], "app": app, "estimate": 100} | HALF for app in ("a", "c")]
    running, pending = (world.scheduler.submit(expand(check(file)), ADA)[0].id for file in files)
    world.settle()
    assert (world.state(running), world.state(pending)) == ("running", "pending")
    messages = [reason.message for reason in world.scheduler.queries.why(pending).reasons]
    assert any(
        "sharing a card would bring no gain" in text and "30% of its speed alone" in text for text in messages
    ), messages
    assert world.scheduler.queries.reservations()[pending].start_us == 100 * SECOND_US


# -- sharing parameters ----------------------------------------------------------------------------------------------


def submit_half(world: World, app: str) -> str:
    file = {"command": ["train"], "app": app, "estimate": 1000} | HALF
    job_id = world.scheduler.submit(expand(check(file)), ADA)[0].id
    world.settle()
    return job_id


def test_sharing_params_of_a_new_job_have_the_rates_of_it_and_its_neighbours(tmp_path) -> None:
    ratios = {**RATIOS, ("a", "b"): 0.9, ("b", "a"): 0.8}
    world = World(tmp_path, "1x1", known=KnownPairs(ratios))
    first, second = submit_half(world, "a"), submit_half(world, "b")
    before, after = (world.engine.running[job_id, 0].sharing_params for job_id in (first, second))
    assert (before.app, before.rate_beside, before.neighbour_rates) == ("a", {}, {})
    assert (before.solo_per_s, after.solo_per_s) == (12.5, 12.5)
    assert (after.app, after.rate_beside, after.neighbour_rates) == ("b", {"a": 0.8}, {"a": 0.9})


def test_sharing_params_have_no_app_for_whole_cards_or_another_sharing_kind(tmp_path) -> None:
    known = KnownPairs(RATIOS)
    world = World(tmp_path, "1x2", known=known)
    whole = {"command": ["train"], "app": "a", "estimate": 1000, "gpus": 1}
    job_id = world.scheduler.submit(expand(check(whole)), ADA)[0].id
    world.settle()
    assert world.engine.running[job_id, 0].sharing_params.app == ""
    known.model.sharing = "time-slicing"
    assert world.engine.running[submit_half(world, "a"), 0].sharing_params.app == ""


def test_sharing_params_have_no_rates_beside_neighbours_of_another_isolation(tmp_path) -> None:
    world = World(tmp_path, "1x1", known=KnownPairs(RATIOS))
    file = {"command": ["train"], "app": "a", "estimate": 1000, "share": {"sm": 0.5, "isolation": "isolated"}}
    world.scheduler.submit(expand(check(file)), ADA)
    world.settle()
    after = world.engine.running[submit_half(world, "b"), 0].sharing_params
    assert (after.app, after.rate_beside, after.neighbour_rates) == ("b", {}, {})


def test_tasks_of_one_gang_on_one_card_are_neighbours(tmp_path) -> None:
    world = World(tmp_path, "1x1", known=KnownPairs(RATIOS))
    file = {"command": ["train"], "app": "a", "estimate": 1000, "count": 2} | HALF
    job_id = world.scheduler.submit(expand(check(file)), ADA)[0].id
    world.settle()
    assert dict(world.engine.running[job_id, 0].sharing_params.rate_beside) == {"a": BAD}


def test_job_starts_without_rates_when_the_model_fails(tmp_path) -> None:
    known = KnownPairs(RATIOS)
    known.model.curve = None  # type: ignore[assignment,method-assign]
    world = World(tmp_path, "1x1", known=known)
    job_id = submit_half(world, "a")
    assert world.engine.running[job_id, 0].sharing_params.app == ""
