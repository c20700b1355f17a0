"""The door for agents: who may report, of which node, how much and how fast."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gpusquad.server.agent_auth import TTL_S, AgentAuth, TokenIdentity
from gpusquad.server.answers import SYSTEM, CardStatus
from gpusquad.server.app import AGENT_PATH, all_routes, make_app
from gpusquad.server.errors import Unavailable
from gpusquad.server.limits import ApiLimits
from gpusquad.server.services.cluster.agent_reports import AgentReports
from gpusquad.server.services.sharing.card_reports import ReportedDivides
from gpusquad.server.services.sharing.cards import CardService
from gpusquad.server.wiring import Agents
from tests.server.exposition import values
from tests.server.rig import Rig, error_of

ACCOUNT = "system:serviceaccount:gpusquad:gpusquad-agent"
AGENT, OTHER, LOOSE, NOBODY = (
    "head.agent.signature",
    "head.other.signature",
    "head.loose.signature",
    "head.no.signature",
)
BEARERS = {AGENT: TokenIdentity(ACCOUNT, "a"), OTHER: TokenIdentity("system:serviceaccount:default:default", "a"),
           LOOSE: TokenIdentity(ACCOUNT), NOBODY: TokenIdentity()}  # fmt: skip
REPORT = {"kind": "samples", "at_us": 5, "cards": [{"id": "a/0", "utilisation_ratio": 0.5}], "runs": []}


class Watcher:
    def hear(self, message: Any) -> None: ...

    def running(self) -> tuple[()]:
        return ()

    def node_of(self, card: str) -> str:
        return card[0]


class Door:
    """The API of a service whose nodes have agents."""

    def __init__(
        self,
        rig: Rig,
        limits: ApiLimits | None = None,
        divides: CardService | None = None,
        reports: AgentReports | None = None,
    ) -> None:
        self.now_s, self.reviewed, self.is_away = 0.0, [], False
        self.reports = reports or AgentReports(rig.clock.now_us, 5.0)
        self.reports.attach(Watcher())
        self.auth = AgentAuth(self._review, ACCOUNT, monotonic_s=lambda: self.now_s)
        self.services = replace(
            rig.services, agents=Agents(self.auth, self.reports), limits=limits or rig.limits,
            divides=divides or rig.services.divides, monotonic_s=lambda: self.now_s,
        )  # fmt: skip
        self.client = TestClient(make_app(self.services), base_url="http://localhost", raise_server_exceptions=False)

    def _review(self, token: str) -> TokenIdentity:
        self.reviewed.append(token)
        if self.is_away:
            raise Unavailable("the cluster does not say whose the token is")
        return BEARERS[token]

    def post(self, token: str = AGENT, content: Any = REPORT, **headers: str):
        given = {"Authorization": f"Bearer {token}"} if token else {}
        return self.client.post(AGENT_PATH, json=content, headers={**given, **headers})

    def counted(self) -> dict[tuple[str, ...], float]:
        return values(self.services.metrics, "gpusquad_agent_reports_total")


@pytest.fixture
def door(rig: Rig) -> Door:
    return Door(rig)


def test_an_agent_reports_its_own_node(door: Door):
    answer = door.post()
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "divide": {"a/0": "equal"}})
    assert list(door.reports._last) == ["a"]
    assert door.counted() == {("taken",): 1, ("refused",): 0}


def test_the_answer_says_how_to_divide_the_cards_and_the_next_report_how_they_are(door: Door, rig: Rig):
    context = CardService(
        rig.database, rig.clock.now_us, lambda: [CardStatus("a/0", "a", 0, "H200", 1, "shared")], lambda: "equal",
        ReportedDivides(door.reports),
    )  # fmt: skip
    door = Door(rig, divides=context, reports=door.reports)
    assert context.set("a/0", "slo", SYSTEM).effect == "unused"
    assert door.post().json()["divide"] == {"a/0": "slo"}

    def divided(policy: str) -> dict[str, Any]:
        said = {"policy": policy, "tenants": [{"id": "uid/main", "job": "J", "isolation": "shared"}], "more": 1}
        return {**REPORT, "cards": [{"id": "a/0", "divided": said}]}

    door.post(content=divided("equal"))
    assert context.get("a/0").division.effect == "told"
    door.post(content=divided("slo"))
    now = context.get("a/0")
    assert now.division.effect == "live"
    assert now.status is not None
    assert [(one["id"], one["job"]) for one in now.status["tenants"]] == [("uid/main", "J")]
    assert "divided" not in door.reports._last["a"].cards["a/0"], "everybody is told of the card's sample"
    door.post()
    assert context.get("a/0").status is None, "nobody shares it any more"


@pytest.mark.parametrize("said", [{}, {"policy": "slo", "tenants": [{}]}, {"policy": "slo", "groups": -1}, []])
def test_a_card_divided_in_a_way_that_cannot_be(door: Door, said: Any):
    assert door.post(content={**REPORT, "cards": [{"id": "a/0", "divided": said}]}).status_code == 422


@pytest.mark.parametrize(
    ("token", "status"),
    [("", 401), (NOBODY, 401), ("gsq_" + "a" * 52, 401), ("x" * 9000, 401), (OTHER, 403), (LOOSE, 403)],
)
def test_nobody_else_does(door: Door, token: str, status: int):
    answer = door.post(token)
    assert answer.status_code == status, answer.text
    assert door.reports._last == {}
    assert door.counted() == {("taken",): 0, ("refused",): 1}


def test_people_do_not_and_their_tokens_are_not_shown_to_the_cluster(door: Door, rig: Rig):
    assert door.post(rig.tokens["root"]).status_code == 401
    assert door.reviewed == []


def test_an_agent_gets_nothing_else(door: Door):
    assert door.client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {AGENT}"}).status_code == 401
    assert door.client.get(AGENT_PATH, headers={"Authorization": f"Bearer {AGENT}"}).status_code == 405


def test_cards_of_other_nodes_are_refused(door: Door):
    answer = door.post(content={**REPORT, "cards": [{"id": "a/0"}, {"id": "b/0"}]})
    assert answer.status_code == 403
    assert error_of(answer)["field"] == "cards"
    assert door.reports._last == {}


def test_a_verdict_is_believed_for_a_minute(door: Door):
    for _ in range(3):
        assert door.post().status_code == 200
        assert door.post(OTHER).status_code == 403
    assert door.reviewed == [AGENT, OTHER]
    door.now_s += TTL_S
    door.post()
    assert door.reviewed == [AGENT, OTHER, AGENT]


def test_only_hashes_are_remembered(door: Door):
    door.post()
    assert all(len(key) == 64 and AGENT not in key for key in door.auth._found)


def test_the_memory_has_an_end():
    auth = AgentAuth(lambda token: TokenIdentity(token, "a"), ACCOUNT, most=3)
    for number in range(5):
        auth.identify(f"token-{number}")
    assert [auth.remembered(f"token-{number}") is not None for number in range(5)] == [False, False, True, True, True]


def test_a_cluster_that_does_not_answer_is_no_verdict(door: Door):
    door.is_away = True
    answer = door.post()
    assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
    door.is_away = False
    assert door.post().status_code == 200


def test_a_node_may_not_report_faster_than_agreed(rig: Rig):
    door = Door(rig, ApiLimits(node_reports_per_s=1.0, node_reports_burst=2))
    assert [door.post().status_code for _ in range(3)] == [200, 200, 429]
    door.now_s += 1.0
    assert door.post().status_code == 200


def test_unknown_tokens_cost_the_cluster_no_more_than_allowed(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    door = Door(rig, ApiLimits(unknown_per_s=0.1, unknown_burst=2))
    monkeypatch.setitem(BEARERS, "a.a.a", TokenIdentity())
    monkeypatch.setitem(BEARERS, "b.b.b", TokenIdentity())
    assert [door.post(token).status_code for token in ("a.a.a", "b.b.b", "c.c.c")] == [401, 401, 429]


def test_a_body_that_is_too_large_is_not_read(door: Door):
    answer = door.client.post(AGENT_PATH, content=b" " * (2**20 + 1), headers={"Authorization": f"Bearer {AGENT}"})
    assert answer.status_code == 413
    assert door.counted() == {("taken",): 0, ("refused",): 1}


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "inventory"}, {"at_us": -1}, {"cards": [{"utilisation_ratio": 0.1}]}, {"cards": [{"id": ""}]},
        {"cards": [{"id": "a/0", "utilisation_ratio": 7}]}, {"runs": [{"attempt": 1}]}, {"cards": "all"},
        {"runs": [{"job": "J", "cpu_ratio": "much"}]}, {"cards": [{"id": "a/0"}] * 257},
    ],
)  # fmt: skip
def test_what_is_no_report_is_refused(door: Door, wrong: dict[str, Any]):
    assert door.post(content=REPORT | wrong).status_code == 422
    assert door.counted() == {("taken",): 0, ("refused",): 1}


def test_a_newer_agent_may_say_more_and_programs_may_be_called_anything(door: Door):
    process = {"pid": 1, "name": "x\x00\x1b[2J" + "y" * 999, "colour": "red"}
    content = {**REPORT, "cards": [{"id": "a/0", "processes": [process], "new": 1}], "more": {}}
    assert door.post(content=content).status_code == 200
    [kept] = door.reports._last["a"].cards["a/0"]["processes"]
    assert kept["name"].isprintable()
    assert "colour" not in kept


def test_no_token_gets_into_the_log(door: Door, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        for token in (AGENT, OTHER, NOBODY):
            door.post(token)
        door.is_away = True
        door.now_s += TTL_S
        door.post()
    assert not any(token in caplog.text for token in BEARERS)


def test_without_agents_there_is_no_such_path(rig: Rig, make_rig: Callable[..., Rig]):
    assert rig.call("POST", AGENT_PATH, None, json=REPORT).status_code == 401
    assert rig.call("POST", AGENT_PATH, "root", json=REPORT).status_code == 404
    assert AGENT_PATH not in {path for path, _ in all_routes()}
