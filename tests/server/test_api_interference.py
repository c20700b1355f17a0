"""What neighbours cost, over the API: tables for pictures, and the company of one job."""

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


class KnownTables:
    """See ``services.neighbours.Known``."""

    is_empty = False

    def __init__(self) -> None:
        self.model = InterferenceTable([measured(more=(triple("busy", "reader", "middle"),))])

    def refresh(self) -> bool:
        return False

    def save(self, learned: dict[str, Any]) -> None: ...


def one_card() -> Cluster:
    """Of the model that was measured."""
    [node] = grid("1x1").nodes
    return Cluster((replace(node, cards=(replace(node.cards[0], model=CARD),)),))


@pytest.fixture
def known() -> KnownTables:
    return KnownTables()


@pytest.fixture
def sharing(make_rig: Callable[..., Rig], known: KnownTables) -> Iterator[Rig]:
    """One card of the model that was measured, and a scheduler that shares it."""

    def make(database: Database, clock: Clock) -> Scheduler:
        scheduler = Scheduler(
            Setup(
                database=database, clock=clock, cluster=one_card(), make_engine=IdleEngine,
                predictor=create("predictor", "recent"), read_secret=lambda tenant, name: "", simulated=True,
                known=known,
            )
        )  # fmt: skip
        scheduler.start()
        return scheduler

    rig = make_rig(make_scheduler=make)
    yield rig
    rig.scheduler.close()


def test_nothing_is_known(rig: Rig) -> None:
    answer = rig.get("interference", "vic").json()
    InterferenceView.model_validate(answer)
    assert answer == {"sharing": None, "cards": [], "truncated": False}


def test_tables_as_they_were_measured(sharing: Rig) -> None:
    answer = sharing.get("interference", "vic").json()
    InterferenceView.model_validate(answer)
    [card] = answer["cards"]
    assert (answer["sharing"], card["gpu"]) == ("time-slicing", CARD)
    assert [one["name"] for one in card["workloads"]] == list(USE)
    assert card["workloads"][0]["solo"]["curve"][-1] == {"sm_ratio": 1.0, "speed_ratio": 1.0}
    pairs = {(pair["own"], pair["other"]): pair for pair in card["pairs"]}
    assert pairs.keys() == {(own, other) for own in USE for other in USE}
    for (own, other), pair in pairs.items():
        assert pair["speed_ratio"] == pytest.approx(expected_rate(own, [other]))
        assert pair["slowdown"] == pytest.approx(1 / expected_rate(own, [other]))
        assert (pair["source"], pair["basis"], pair["watched_s"]) == ("measured", "measured", 0)
    assert card["errors"]["triples"]["count"] == 3
    assert (card["errors"]["splits"], card["errors"]["running"]) == (None, None)


def test_what_was_learned_is_told_and_new_names_only_to_administrators(sharing: Rig, known: KnownTables) -> None:
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
    assert card["errors"]["running"]["bias"] > 0, "slower than was measured or foretold"


def test_a_map_has_a_bound(known: KnownTables) -> None:
    for number in range(MAX_WORKLOADS):
        known.model.learn(job("busy"), [job(f"app{number}")], CARD, 0.5, 60.0)
    found = InterferenceService().tables(known.model, True)
    assert found["truncated"]
    assert len(found["cards"][0]["pairs"]) == MAX_WORKLOADS**2
    assert not InterferenceService().tables(known.model, False)["truncated"]


def test_pairs_that_were_never_measured_are_foretold() -> None:
    found = InterferenceService().tables(InterferenceTable([measured(("busy", "idle"))]), False)
    pairs = {(pair["own"], pair["other"]): pair for pair in found["cards"][0]["pairs"]}
    assert (pairs["busy", "idle"]["source"], pairs["busy", "idle"]["basis"]) == ("predicted", "rows and columns")


def test_the_company_of_a_job(sharing: Rig) -> None:
    mine, theirs = submit_half(sharing, "ann", "busy"), submit_half(sharing, "bob", "idle")
    found = _until_shared(sharing, mine, "ann")
    [card] = found["cards"]
    [beside] = card["neighbours"]
    assert (beside["job"], beside["name"], beside["user"], beside["app"]) == (None,) * 4
    assert (beside["sm_ratio"], beside["basis"]) == (0.5, "measured")
    assert card["speed_ratio"] == found["expected_ratio"] == pytest.approx(expected_rate("busy", ["idle"]))
    assert found["expected_slowdown"] == pytest.approx(1 / expected_rate("busy", ["idle"]))
    assert (found["observed_ratio"], found["steps_per_s"]) == (None, None), "it reports no steps"
    assert sharing.get(f"jobs/{theirs}/neighbours", "ann").status_code == 404
    [beside] = _until_shared(sharing, theirs, "root")["cards"][0]["neighbours"]
    assert (beside["job"], beside["app"]) == (mine, "busy")


def test_a_job_that_waits_has_no_company(rig: Rig) -> None:
    job_id = rig.submit("ann")["id"]
    answer = rig.get(f"jobs/{job_id}/neighbours").json()
    NeighboursView.model_validate(answer)
    assert (answer["cards"], answer["expected_ratio"]) == ([], None)


def test_the_pace_that_is_seen(tmp_path: Any) -> None:
    cards = Cards(tmp_path)
    first = cards.submit("vgg16", 10)
    cards.run(LESSON_S)
    cards.submit("stream", 100)
    cards.paces[first] = 4
    cards.run(LESSON_S // 2)
    scheduler = cards.world.scheduler
    seen = step_rate(scheduler.row(first), scheduler.neighbours)
    assert seen.alone == pytest.approx(10, rel=0.02)
    assert seen.ratio == pytest.approx(0.4, rel=0.05)
    cards.world.scheduler.cancel(first, ADA)
    cards.world.settle()
    assert step_rate(scheduler.row(first), scheduler.neighbours) == StepRate(
        None, None
    )  # over: nothing is its step_rate now


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
