"""Tests of passing divide policies from the service to the card daemons of this machine."""

from __future__ import annotations

from gpusquad.app.card_policies import SquadDivides
from gpusquad.gpu.api import NoSharing
from tests.fake_quota import FakeQuota
from tests.server.fake_divides import check_divides


def test_squad_divides_meet_the_contract():
    divides = SquadDivides()
    divides.use(FakeQuota(known=("A", "B"), running={"A": "equal"}))
    check_divides(divides, "A", "B")


def test_policy_is_stored_for_the_next_daemon_when_a_card_has_none():
    quota = FakeQuota(known=("A",), running={})
    divides = SquadDivides()
    divides.use(quota)
    divides.set("A", "slo")
    assert quota.policies() == {"A": "slo"}
    assert divides.policies() == {}


def test_policies_are_empty_when_cards_cannot_be_shared():
    divides = SquadDivides()
    divides.use(NoSharing("the cards are simulated"))
    divides.set("A", "slo")
    assert (divides.absence, divides.policies(), divides.status("A")) == ("the cards are simulated", {}, None)


def test_policy_of_a_starting_daemon_comes_from_the_service():
    divides = SquadDivides()
    assert divides.policy_of("A") == "equal"
    divides.policy_source = {"A": "slo"}.__getitem__
    assert divides.policy_of("A") == "slo"
