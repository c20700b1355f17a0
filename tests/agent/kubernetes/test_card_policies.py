"""Tests of the divide policies that an agent gets from the service, and of its reports about its cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpusquad.agent.inventory import CardReading
from gpusquad.agent.kubernetes.card_policies import FIRST, KEPT_S, CardPolicies
from gpusquad.agent.kubernetes.counters import EventCounters
from gpusquad.agent.kubernetes.node_snapshot import NodeSnapshot
from gpusquad.agent.kubernetes.reporting import NodeReporter, ReportBuilder
from gpusquad.server.schemas import agents as schema
from gpusquad.server.services.cluster.agent_reports import AgentReports
from gpusquad.server.services.sharing.card_reports import ReportedDivides
from tests.fake_quota import FakeQuota
from tests.server.fake_divides import check_divides, tenant


@pytest.fixture
def quota() -> FakeQuota:
    return FakeQuota(known=("A", "B"), running={"A": "equal"}, clients=[tenant("uid/main", job="J", kept="apart")])


@pytest.fixture
def policies(quota: FakeQuota) -> CardPolicies:
    card_policies = CardPolicies()
    card_policies.use(quota)
    return card_policies


def test_policies_from_the_service_are_set_once(policies: CardPolicies, quota: FakeQuota):
    policies.take({"ok": True, "divide": {"A": "slo", "B": "jct", "C": "slo"}})
    assert quota.policy_changes == [("A", "slo"), ("B", "jct")]
    assert [policies.policy_of(card) for card in "ABCD"] == ["slo", "jct", "slo", FIRST]
    policies.take({"ok": True, "divide": {"A": "slo", "B": "jct"}})
    assert len(quota.policy_changes) == 2, "an unchanged policy is not set again"


def test_policy_is_set_again_when_the_daemon_fell_back(policies: CardPolicies, quota: FakeQuota):
    policies.take({"divide": {"A": "slo"}})
    quota.running["A"] = "equal"
    policies.take({"divide": {"A": "slo"}})
    assert quota.policy_changes == [("A", "slo"), ("A", "slo")]


@pytest.mark.parametrize("answer", [None, {}, {"ok": True}, [], {"divide": None}, {"divide": ["A"]}])
def test_answer_without_policies_is_ignored(policies: CardPolicies, quota: FakeQuota, answer: object):
    policies.take(answer)
    assert quota.policy_changes == []


def test_other_cards_get_their_policy_when_one_card_fails(policies: CardPolicies, quota: FakeQuota):
    quota.broken = {"A"}
    policies.take({"divide": {"A": "slo", "B": "jct"}})
    assert quota.policy_changes == [("B", "jct")]
    message: dict[str, Any] = {"cards": [{"id": "A"}, {"id": "B"}]}
    policies.add_to(message)
    assert message == {"cards": [{"id": "A"}, {"id": "B"}]}


def test_failed_policy_change_is_retried_after_a_delay(quota: FakeQuota):
    now_s = 0.0
    policies = CardPolicies(monotonic_s=lambda: now_s)
    policies.use(quota)
    quota.broken = {"B"}
    policies.take({"divide": {"B": "slo"}})
    quota.broken = set()
    policies.take({"divide": {"B": "slo"}})
    assert quota.policy_changes == []
    policies.take({"divide": {"B": "jct"}})
    assert quota.policy_changes == [("B", "jct")], "another policy is tried at once"
    quota.broken = {"B"}
    policies.take({"divide": {"B": "slo"}})
    quota.broken, now_s = set(), 1000.0
    policies.take({"divide": {"B": "slo"}})
    assert quota.policy_changes == [("B", "jct"), ("B", "slo")]


def test_virtual_cards_are_set_and_reported_as_one_card(policies: CardPolicies, quota: FakeQuota):
    policies.take({"divide": {"A.1of2": "slo", "A.2of2": "slo"}})
    assert quota.policy_changes == [("A", "slo")]
    message: dict[str, Any] = {"cards": [{"id": "A.1of2"}, {"id": "A.2of2"}, {"id": "B"}]}
    policies.add_to(message)
    assert [card["id"] for card in message["cards"] if "divided" in card] == ["A.1of2"]


def test_last_status_is_reported_for_a_while_when_a_daemon_does_not_answer(quota: FakeQuota):
    """A card with an unmanaged process is blocked while its rule for such processes is unknown."""
    now_s = 0.0
    policies = CardPolicies(monotonic_s=lambda: now_s)
    policies.use(quota)

    def reported_rules() -> dict[str, Any]:
        message: dict[str, Any] = {"cards": [{"id": "A"}, {"id": "B"}]}
        policies.add_to(message)
        return {card["id"]: card["divided"]["rule"] for card in message["cards"] if "divided" in card}

    quota.silent = {"A", "B"}
    assert reported_rules() == {}, "no status is known yet"
    quota.silent = set()
    assert reported_rules() == {"A": "report"}
    quota.silent, now_s = {"A", "B"}, KEPT_S
    assert reported_rules() == {"A": "report"}
    now_s += 1.0
    assert reported_rules() == {}, "the last status is too old"
    quota.silent = set()
    assert reported_rules() == {"A": "report"}
    quota.running.clear()
    assert reported_rules() == {}, "the card has no daemon"
    quota.silent = {"A"}
    assert reported_rules() == {}, "the last status is from another daemon"


def test_excessive_values_of_a_client_are_clamped_in_the_report() -> None:
    """A client writes its own page in the region."""
    policies = CardPolicies()
    excessive = tenant("uid/main") | {"used_bytes": 2**64 - 1, "peak_bytes": 2**64 - 1, "waited_us": 2**70}
    policies.use(FakeQuota(known=("A",), running={"A": "equal"}, clients=[excessive]))
    message: dict[str, Any] = {"kind": "samples", "at_us": 5, "cards": [{"id": "A"}]}
    policies.add_to(message)
    [reported] = schema.AgentSamples.model_validate(message).cards[0].divided.tenants  # type: ignore[union-attr]
    assert (reported.used_bytes, reported.priority, reported.is_idle) == (
        2**62,
        excessive["priority"],
        excessive["is_idle"],
    )
    assert reported.iterations_per_s == excessive["iterations_per_s"]


def test_report_is_sent_when_card_status_fails(policies: CardPolicies, quota: FakeQuota):
    quota.broken = {"all"}
    reporter = NodeReporter(FakeService().post, ReportBuilder(None), EventCounters(), 5.0, divides=policies)
    assert reporter.send(NodeSnapshot(5, [CardReading("A")], [], {}, [], [])) == 5.0


class FakeService:
    """The service's side: takes reports and answers with policies."""

    def __init__(self) -> None:
        self.wanted: dict[str, str] = {}
        self.reports = AgentReports(lambda: 1, 5.0)
        self.reports.attach(self)

    def hear(self, message: Any) -> None: ...

    def running(self) -> tuple[()]:
        return ()

    def node_of(self, card: str) -> str:
        return "n"

    def post(self, path: str, content: dict[str, Any]) -> Mapping[str, Any]:
        cards = self.reports.take("n", schema.AgentSamples.model_validate(content).model_dump())
        return {"ok": True, "divide": {card: self.wanted.get(card, "equal") for card in cards}}


class AgentDivides(ReportedDivides):
    """Divides of a node's cards, set through its agent."""

    def __init__(self, service: FakeService) -> None:
        super().__init__(service.reports)
        self._service = service

    def set(self, card: str, policy: str) -> None:
        self._service.wanted[card] = policy


def test_divides_through_an_agent_meet_the_contract(policies: CardPolicies, quota: FakeQuota):
    service = FakeService()
    reporter = NodeReporter(service.post, ReportBuilder(None), EventCounters(), 5.0, divides=policies)
    snapshot = NodeSnapshot(5, [CardReading("A"), CardReading("B")], [], {}, [], [])

    def settle() -> None:
        """The answer to the first report sets the policy; the second report shows the result."""
        for _ in range(2):
            assert reporter.send(snapshot) == 5.0

    check_divides(AgentDivides(service), "A", "B", settle)
    [reported] = service.reports.divided()["A"]["tenants"]
    assert (reported["job"], reported["quota_bytes"], reported["isolation"]) == ("J", 8 * 2**30, "shared")
    assert "kept" not in reported
    quota.running.clear()
    reporter.send(snapshot)
    assert service.reports.divided() == {}
