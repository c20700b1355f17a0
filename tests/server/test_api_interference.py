"""API of interference: measured tables and the neighbours of a job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpusquad.model.cluster import Cluster, grid
from gpusquad.predict.interference import InterferenceTable
from gpusquad.registry import create
from gpusquad.server.clock import Clock
from gpusquad.server.schemas.interference import InterferenceView, NeighboursView
from gpusquad.server.services.scheduler import Scheduler, Setup
from gpusquad.server.services.sharing.card_neighbours import StepRate, step_rate
from gpusquad.server.services.sharing.interference import MAX_WORKLOADS, InterferenceService
from gpusquad.store.database import Database
from tests.predict.interference.synthetic import CARD, USE, expected_rate, job, measured, triple
from tests.server.rig import Rig
from tests.server.services.test_interference_learning import LESSON_S, Cards
from tests.server.services.world import ADA
from tests.server.test_fuzz import IdleEngine

HALF = {"command": ["true"], "share": {"sm": 0.5, "memory": "1GiB"}}


class FakeInterferenceTables:
    """Interference model from measured tables."""

    is_empty = False

    def __init__(self) -> None:
        self.model = InterferenceTable([measured(more=(triple("busy", "reader", "middle"),))])

    def refresh(self) -> bool:
        return False

    def save(self, learned: dict[str, Any]) -> None: ...


def one_card_cluster() -> Cluster:
    """Create a cluster with one card of the measured model."""
    [node] = grid("1x1").nodes
    return Cluster((replace(node, cards=(replace(node.cards[0], model=CARD),)),))


@pytest.fixture
def known() -> FakeInterferenceTables:
    return FakeInterferenceTables()


@pytest.fixture
def sharing(make_rig: Callable[..., Rig], known: FakeInterferenceTables) -> Iterator[Rig]:
    """An API with one card of the measured model and a scheduler that shares it."""

    def make(database: Database, clock: Clock) -> Scheduler:
        scheduler = Scheduler(
            Setup(
                database=database, clock=clock, cluster=one_card_cluster(), make_engine=IdleEngine,
                predictor=create("predictor", "recent"), read_secret=lambda tenant, name: "", simulated=True,
                known=known,
            )
        )  # fmt: skip
        scheduler.start()
        return scheduler

    rig = make_rig(make_scheduler=make)
    yield rig
    rig.scheduler.close()


def test_interference_is_empty_without_measurements(rig: Rig) -> None:
    answer = rig.get("interference", "vic").json()
    InterferenceView.model_validate(answer)
    assert answer == {"sharing": None, "cards": [], "truncated": False}


def test_interference_has_the_measured_tables(sharing: Rig) -> None:
    answer = sharing.get("interference", "vic").json()
    InterferenceView.model_validate(answer)
    [card] = answer["cards"]
    assert (answer["sharing"], card["gpu"]) == ("time-slicing", CARD)
    assert [workload["name"] for workload in card["workloads"]] == list(USE)
    assert card["workloads"][0]["solo"]["curve"][-1] == {"sm_ratio": 1.0, "speed_ratio": 1.0}
    pairs = {(pair["own"], pair["other"]): pair for pair in card["pairs"]}
    assert pairs.keys() == {(own, other) for own in USE for other in USE}
    for (own, other), pair in pairs.items():
        assert pair["speed_ratio"] == pytest.approx(expected_rate(own, [other]))
        assert pair["slowdown"] == pytest.approx(1 / expected_rate(own, [other]))
        assert (pair["source"], pair["basis"], pair["watched_s"]) == ("measured", "measured", 0)
    assert card["errors"]["triples"]["count"] == 3
    assert (card["errors"]["splits"], card["errors"]["running"]) == (None, None)


def test_learned_pairs_are_shown_and_unmeasured_apps_only_to_administrators(
    sharing: Rig, known: FakeInterferenceTables
) -> None:
    known.model.learn(job("busy"), [job("idle")], CARD, 0.5, 3600.0)
    known.model.learn(job("busy"), [job("their-secret")], CARD, 0.5, 3600.0)
    mine = sharing.get("interference", "vic")
    assert "their-secret" not in mine.text
    pairs = {(pair["own"], pair["other"]): pair for pair in mine.json()["cards"][0]["pairs"]}
    assert (pairs["busy", "idle"]["source"], pairs["busy", "idle"]["watched_s"]) == ("learned", 3600)
    assert pairs["idle", "busy"]["source"] == "measured"
    [card] = sharing.get("interference", "root").json()["cards"]
    pairs = {(pair["own"], pair["other"]): pair for pair in card["pairs"]}
    assert pairs["busy", "their-secret"]["basis"] == "default"
    assert pairs["their-secret", "busy"]["source"] == "predicted"
    assert card["workloads"][-1] == {"name": "their-secret", "solo": None}
    assert card["errors"]["running"]["count"] == 2
    assert card["errors"]["running"]["bias"] > 0, "slower than measured or predicted"


def test_number_of_workloads_is_limited(known: FakeInterferenceTables) -> None:
    for number in range(MAX_WORKLOADS):
        known.model.learn(job("busy"), [job(f"app{number}")], CARD, 0.5, 60.0)
    found = InterferenceService().tables(known.model, True)
    assert found["truncated"]
    assert len(found["cards"][0]["pairs"]) == MAX_WORKLOADS**2
    assert not InterferenceService().tables(known.model, False)["truncated"]


def test_unmeasured_pairs_are_predicted() -> None:
    found = InterferenceService().tables(InterferenceTable([measured(("busy", "idle"))]), False)
    pairs = {(pair["own"], pair["other"]): pair for pair in found["cards"][0]["pairs"]}
    assert (pairs["busy", "idle"]["source"], pairs["busy", "idle"]["basis"]) == ("predicted", "rows and columns")


def test_neighbours_of_a_job_have_predicted_rates_and_hidden_names(sharing: Rig) -> None:
    mine, theirs = submit_half(sharing, "ann", "busy"), submit_half(sharing, "bob", "idle")
    found = _until_shared(sharing, mine, "ann")
    [card] = found["cards"]
    [neighbour] = card["neighbours"]
    assert (neighbour["job"], neighbour["name"], neighbour["user"], neighbour["app"]) == (None,) * 4
    assert (neighbour["sm_ratio"], neighbour["basis"]) == (0.5, "measured")
    assert card["speed_ratio"] == found["expected_ratio"] == pytest.approx(expected_rate("busy", ["idle"]))
    assert found["expected_slowdown"] == pytest.approx(1 / expected_rate("busy", ["idle"]))
    assert (found["observed_ratio"], found["steps_per_s"]) == (None, None), "it reports no steps"
    assert sharing.get(f"jobs/{theirs}/neighbours", "ann").status_code == 404
    [neighbour] = _until_shared(sharing, theirs, "root")["cards"][0]["neighbours"]
    assert (neighbour["job"], neighbour["app"]) == (mine, "busy")


def test_pending_job_has_no_neighbours(rig: Rig) -> None:
    job_id = rig.submit("ann")["id"]
    answer = rig.get(f"jobs/{job_id}/neighbours").json()
    NeighboursView.model_validate(answer)
    assert (answer["cards"], answer["expected_ratio"]) == ([], None)


def test_step_rate_has_the_solo_speed_and_the_ratio(tmp_path: Any) -> None:
    cards = Cards(tmp_path)
    first = cards.submit("vgg16", 10)
    cards.run(LESSON_S)
    cards.submit("stream", 100)
    cards.steps_per_s[first] = 4
    cards.run(LESSON_S // 2)
    scheduler = cards.world.scheduler
    observed = step_rate(scheduler.row(first), scheduler.neighbours)
    assert observed.alone == pytest.approx(10, rel=0.02)
    assert observed.ratio == pytest.approx(0.4, rel=0.05)
    cards.world.scheduler.cancel(first, ADA)
    cards.world.settle()
    assert step_rate(scheduler.row(first), scheduler.neighbours) == StepRate(
        None, None
    )  # a finished job has no step rate


def submit_half(rig: Rig, user: str, app: str) -> str:
    answer = rig.post("jobs", user, json={"file": HALF | {"app": app}})
    assert answer.status_code == 201, answer.text
    return answer.json()["jobs"][0]["id"]


def _until_shared(rig: Rig, job_id: str, user: str) -> dict[str, Any]:
    for _ in range(50):
        answer = rig.get(f"jobs/{job_id}/neighbours", user)
        assert answer.status_code == 200, answer.text
        NeighboursView.model_validate(answer.json())
        if answer.json()["cards"] and answer.json()["cards"][0]["neighbours"]:
            return answer.json()
        time.sleep(0.1)
    raise AssertionError(answer.text)
