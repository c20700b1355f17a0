"""API for agents: authentication, nodes, limits and validation of reports."""

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
AGENT, OTHER, WITHOUT_NODE, UNKNOWN = (
    "head.agent.signature",
    "head.other.signature",
    "head.loose.signature",
    "head.no.signature",
)
BEARERS = {AGENT: TokenIdentity(ACCOUNT, "a"), OTHER: TokenIdentity("system:serviceaccount:default:default", "a"),
           WITHOUT_NODE: TokenIdentity(ACCOUNT), UNKNOWN: TokenIdentity()}  # fmt: skip
REPORT = {"kind": "samples", "at_us": 5, "cards": [{"id": "a/0", "utilisation_ratio": 0.5}], "runs": []}


class Watcher:
    def hear(self, message: Any) -> None: ...

    def running(self) -> tuple[()]:
        return ()

    def node_of(self, card: str) -> str:
        return card[0]


class AgentApi:
    """An API of a service whose nodes have agents."""

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
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        return self.client.post(AGENT_PATH, json=content, headers={**authorization, **headers})

    def report_counts(self) -> dict[tuple[str, ...], float]:
        return values(self.services.metrics, "gpusquad_agent_reports_total")


@pytest.fixture
def agents(rig: Rig) -> AgentApi:
    return AgentApi(rig)


def test_report_of_the_agents_own_node_is_accepted(agents: AgentApi):
    answer = agents.post()
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "divide": {"a/0": "equal"}, "tests": []})
    assert list(agents.reports._last) == ["a"]
    assert agents.report_counts() == {("taken",): 1, ("refused",): 0}


def test_answer_names_the_suspected_cards_of_the_node(agents: AgentApi, rig: Rig):
    rig.services.scheduler.doubted = ["a/0", "b/0"]  # type: ignore[attr-defined]
    assert agents.post().json()["tests"] == ["a/0"]


def test_answer_has_the_divide_policies_and_reports_have_their_status(agents: AgentApi, rig: Rig):
    service = CardService(
        rig.database, rig.clock.now_us, lambda: [CardStatus("a/0", "a", 0, "H200", 1, "shared")], lambda: "equal",
        ReportedDivides(agents.reports),
    )  # fmt: skip
    agents = AgentApi(rig, divides=service, reports=agents.reports)
    assert service.set("a/0", "slo", SYSTEM).effect == "unused"
    assert agents.post().json()["divide"] == {"a/0": "slo"}

    def divided(policy: str) -> dict[str, Any]:
        status = {"policy": policy, "tenants": [{"id": "uid/main", "job": "J", "isolation": "shared"}], "more": 1}
        return {**REPORT, "cards": [{"id": "a/0", "divided": status}]}

    agents.post(content=divided("equal"))
    assert service.get("a/0").division.effect == "told"
    agents.post(content=divided("slo"))
    now = service.get("a/0")
    assert now.division.effect == "live"
    assert now.status is not None
    assert [(client["id"], client["job"]) for client in now.status["tenants"]] == [("uid/main", "J")]
    assert "divided" not in agents.reports._last["a"].cards["a/0"], "samples are visible to all users"
    agents.post()
    assert service.get("a/0").status is None, "the card is no longer shared"


@pytest.mark.parametrize("division", [{}, {"policy": "slo", "tenants": [{}]}, {"policy": "slo", "groups": -1}, []])
def test_report_with_an_invalid_division_is_refused(agents: AgentApi, division: Any):
    assert agents.post(content={**REPORT, "cards": [{"id": "a/0", "divided": division}]}).status_code == 422


@pytest.mark.parametrize(
    ("token", "status"),
    [("", 401), (UNKNOWN, 401), ("gsq_" + "a" * 52, 401), ("x" * 9000, 401), (OTHER, 403), (WITHOUT_NODE, 403)],
)
def test_report_with_another_token_is_rejected(agents: AgentApi, token: str, status: int):
    answer = agents.post(token)
    assert answer.status_code == status, answer.text
    assert agents.reports._last == {}
    assert agents.report_counts() == {("taken",): 0, ("refused",): 1}


def test_user_tokens_are_rejected_without_a_token_review(agents: AgentApi, rig: Rig):
    assert agents.post(rig.tokens["root"]).status_code == 401
    assert agents.reviewed == []


def test_agent_token_is_rejected_on_other_routes(agents: AgentApi):
    assert agents.client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {AGENT}"}).status_code == 401
    assert agents.client.get(AGENT_PATH, headers={"Authorization": f"Bearer {AGENT}"}).status_code == 405


def test_report_with_a_card_of_another_node_is_refused(agents: AgentApi):
    answer = agents.post(content={**REPORT, "cards": [{"id": "a/0"}, {"id": "b/0"}]})
    assert answer.status_code == 403
    assert error_of(answer)["field"] == "cards"
    assert agents.reports._last == {}


def test_token_review_is_cached_for_its_time_to_live(agents: AgentApi):
    for _ in range(3):
        assert agents.post().status_code == 200
        assert agents.post(OTHER).status_code == 403
    assert agents.reviewed == [AGENT, OTHER]
    agents.now_s += TTL_S
    agents.post()
    assert agents.reviewed == [AGENT, OTHER, AGENT]


def test_token_cache_contains_only_hashes(agents: AgentApi):
    agents.post()
    assert all(len(key) == 64 and AGENT not in key for key in agents.auth._found)


def test_token_cache_is_bounded():
    auth = AgentAuth(lambda token: TokenIdentity(token, "a"), ACCOUNT, most=3)
    for number in range(5):
        auth.identify(f"token-{number}")
    assert [auth.remembered(f"token-{number}") is not None for number in range(5)] == [False, False, True, True, True]


def test_failed_token_review_is_not_cached(agents: AgentApi):
    agents.is_away = True
    answer = agents.post()
    assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
    agents.is_away = False
    assert agents.post().status_code == 200


def test_reports_of_a_node_are_rate_limited(rig: Rig):
    agents = AgentApi(rig, ApiLimits(node_reports_per_s=1.0, node_reports_burst=2))
    assert [agents.post().status_code for _ in range(3)] == [200, 200, 429]
    agents.now_s += 1.0
    assert agents.post().status_code == 200


def test_token_reviews_of_unknown_tokens_are_rate_limited(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    agents = AgentApi(rig, ApiLimits(unknown_per_s=0.1, unknown_burst=2))
    monkeypatch.setitem(BEARERS, "a.a.a", TokenIdentity())
    monkeypatch.setitem(BEARERS, "b.b.b", TokenIdentity())
    assert [agents.post(token).status_code for token in ("a.a.a", "b.b.b", "c.c.c")] == [401, 401, 429]


def test_too_large_report_is_refused(agents: AgentApi):
    answer = agents.client.post(AGENT_PATH, content=b" " * (2**20 + 1), headers={"Authorization": f"Bearer {AGENT}"})
    assert answer.status_code == 413
    assert agents.report_counts() == {("taken",): 0, ("refused",): 1}


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "inventory"}, {"at_us": -1}, {"cards": [{"utilisation_ratio": 0.1}]}, {"cards": [{"id": ""}]},
        {"cards": [{"id": "a/0", "utilisation_ratio": 7}]}, {"runs": [{"attempt": 1}]}, {"cards": "all"},
        {"runs": [{"job": "J", "cpu_ratio": "much"}]}, {"cards": [{"id": "a/0"}] * 257},
    ],
)  # fmt: skip
def test_invalid_report_is_refused(agents: AgentApi, wrong: dict[str, Any]):
    assert agents.post(content=REPORT | wrong).status_code == 422
    assert agents.report_counts() == {("taken",): 0, ("refused",): 1}


def test_unknown_fields_are_dropped_and_process_names_are_sanitised(agents: AgentApi):
    process = {"pid": 1, "name": "x\x00\x1b[2J" + "y" * 999, "colour": "red"}
    content = {**REPORT, "cards": [{"id": "a/0", "processes": [process], "new": 1}], "more": {}}
    assert agents.post(content=content).status_code == 200
    [process_row] = agents.reports._last["a"].cards["a/0"]["processes"]
    assert process_row["name"].isprintable()
    assert "colour" not in process_row


def test_tokens_are_not_logged(agents: AgentApi, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        for token in (AGENT, OTHER, UNKNOWN):
            agents.post(token)
        agents.is_away = True
        agents.now_s += TTL_S
        agents.post()
    assert not any(token in caplog.text for token in BEARERS)


def test_agent_route_does_not_exist_without_agents(rig: Rig, make_rig: Callable[..., Rig]):
    assert rig.call("POST", AGENT_PATH, None, json=REPORT).status_code == 401
    assert rig.call("POST", AGENT_PATH, "root", json=REPORT).status_code == 404
    assert AGENT_PATH not in {path for path, _ in all_routes()}
