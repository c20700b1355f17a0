"""What an agent is told of how to divide its cards, what it makes of it, and what it tells of them."""

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
    made = CardPolicies()
    made.use(quota)
    return made


def test_cards_are_divided_as_the_service_says(policies: CardPolicies, quota: FakeQuota):
    policies.take({"ok": True, "divide": {"A": "slo", "B": "jct", "C": "slo"}})
    assert quota.told == [("A", "slo"), ("B", "jct")]
    assert [policies.policy_of(card) for card in "ABCD"] == ["slo", "jct", "slo", FIRST]
    policies.take({"ok": True, "divide": {"A": "slo", "B": "jct"}})
    assert len(quota.told) == 2, "nothing is told twice"


def test_a_daemon_that_fell_back_is_told_again(policies: CardPolicies, quota: FakeQuota):
    policies.take({"divide": {"A": "slo"}})
    quota.running["A"] = "equal"
    policies.take({"divide": {"A": "slo"}})
    assert quota.told == [("A", "slo"), ("A", "slo")]


@pytest.mark.parametrize("answer", [None, {}, {"ok": True}, [], {"divide": None}, {"divide": ["A"]}])
def test_an_older_service_says_nothing_of_it(policies: CardPolicies, quota: FakeQuota, answer: object):
    policies.take(answer)
    assert quota.told == []


def test_one_card_that_cannot_be_told_does_not_cost_the_others(policies: CardPolicies, quota: FakeQuota):
    quota.broken = {"A"}
    policies.take({"divide": {"A": "slo", "B": "jct"}})
    assert quota.told == [("B", "jct")]
    message: dict[str, Any] = {"cards": [{"id": "A"}, {"id": "B"}]}
    policies.add_to(message)
    assert message == {"cards": [{"id": "A"}, {"id": "B"}]}


def test_a_card_that_cannot_be_told_is_told_again_after_a_while(quota: FakeQuota):
    now_s = 0.0
    policies = CardPolicies(monotonic_s=lambda: now_s)
    policies.use(quota)
    quota.broken = {"B"}
    policies.take({"divide": {"B": "slo"}})
    quota.broken = set()
    policies.take({"divide": {"B": "slo"}})
    assert quota.told == []
    policies.take({"divide": {"B": "jct"}})
    assert quota.told == [("B", "jct")], "another policy is another matter"
    quota.broken = {"B"}
    policies.take({"divide": {"B": "slo"}})
    quota.broken, now_s = set(), 1000.0
    policies.take({"divide": {"B": "slo"}})
    assert quota.told == [("B", "jct"), ("B", "slo")]


def test_of_a_card_that_is_shown_as_several_it_is_said_once(policies: CardPolicies, quota: FakeQuota):
    policies.take({"divide": {"A.1of2": "slo", "A.2of2": "slo"}})
    assert quota.told == [("A", "slo")]
    message: dict[str, Any] = {"cards": [{"id": "A.1of2"}, {"id": "A.2of2"}, {"id": "B"}]}
    policies.add_to(message)
    assert [card["id"] for card in message["cards"] if "divided" in card] == ["A.1of2"]


def test_of_a_daemon_that_does_not_answer_it_is_said_what_was_known_for_a_while(quota: FakeQuota):
    """A card whose rule for strangers nobody knows is barred while one is on it."""
    now_s = 0.0
    policies = CardPolicies(monotonic_s=lambda: now_s)
    policies.use(quota)

    def said() -> dict[str, Any]:
        message: dict[str, Any] = {"cards": [{"id": "A"}, {"id": "B"}]}
        policies.add_to(message)
        return {card["id"]: card["divided"]["rule"] for card in message["cards"] if "divided" in card}

    quota.silent = {"A", "B"}
    assert said() == {}, "nothing is known of it"
    quota.silent = set()
    assert said() == {"A": "report"}
    quota.silent, now_s = {"A", "B"}, KEPT_S
    assert said() == {"A": "report"}
    now_s += 1.0
    assert said() == {}, "by now it may be anything"
    quota.silent = set()
    assert said() == {"A": "report"}
    quota.running.clear()
    assert said() == {}, "nobody divides it any more"
    quota.silent = {"A"}
    assert said() == {}, "what was known is of another daemon"


def test_a_tenant_that_claims_too_much_does_not_cost_its_node_the_report() -> None:
    """Its page is its own to write."""
    policies = CardPolicies()
    liar = tenant("uid/main") | {"used_bytes": 2**64 - 1, "peak_bytes": 2**64 - 1, "waited_us": 2**70}
    policies.use(FakeQuota(known=("A",), running={"A": "equal"}, clients=[liar]))
    message: dict[str, Any] = {"kind": "samples", "at_us": 5, "cards": [{"id": "A"}]}
    policies.add_to(message)
    [told] = schema.AgentSamples.model_validate(message).cards[0].divided.tenants  # type: ignore[union-attr]
    assert (told.used_bytes, told.priority, told.is_idle) == (2**62, liar["priority"], liar["is_idle"])
    assert told.iterations_per_s == liar["iterations_per_s"]


def test_whatever_is_wrong_there_the_cards_are_reported(policies: CardPolicies, quota: FakeQuota):
    quota.broken = {"all"}
    reporter = NodeReporter(Service().post, ReportBuilder(None), EventCounters(), 5.0, divides=policies)
    assert reporter.send(NodeSnapshot(5, [CardReading("A")], [], {}, [], [])) == 5.0


class Service:
    """One end of the wire: reports come in, answers go out."""

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


class OverTheWire(ReportedDivides):
    """Cards of a node behind an agent."""

    def __init__(self, service: Service) -> None:
        super().__init__(service.reports)
        self._service = service

    def set(self, card: str, policy: str) -> None:
        self._service.wanted[card] = policy


def test_cards_behind_an_agent_keep_the_contract(policies: CardPolicies, quota: FakeQuota):
    service = Service()
    reporter = NodeReporter(service.post, ReportBuilder(None), EventCounters(), 5.0, divides=policies)
    look = NodeSnapshot(5, [CardReading("A"), CardReading("B")], [], {}, [], [])

    def settle() -> None:
        """One report brings the wish, the next one what became of it."""
        for _ in range(2):
            assert reporter.send(look) == 5.0

    check_divides(OverTheWire(service), "A", "B", settle)
    [told] = service.reports.divided()["A"]["tenants"]
    assert (told["job"], told["quota_bytes"], told["isolation"]) == ("J", 8 * 2**30, "shared")
    assert "kept" not in told
    quota.running.clear()
    reporter.send(look)
    assert service.reports.divided() == {}
