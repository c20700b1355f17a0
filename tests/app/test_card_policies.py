"""From the service to the daemons of this machine's cards."""

from __future__ import annotations

from gpusquad.app.card_policies import SquadDivides
from gpusquad.gpu.api import NoSharing
from tests.fake_quota import FakeQuota
from tests.server.fake_divides import check_divides


def test_the_contract():
    divides = SquadDivides()
    divides.use(FakeQuota(known=("A", "B"), running={"A": "equal"}))
    check_divides(divides, "A", "B")


def test_cards_without_a_daemon_are_told_too_for_the_next_one():
    quota = FakeQuota(known=("A",), running={})
    divides = SquadDivides()
    divides.use(quota)
    divides.set("A", "slo")
    assert quota.policies() == {"A": "slo"}
    assert divides.policies() == {}


def test_without_anybody_to_divide_cards():
    divides = SquadDivides()
    divides.use(NoSharing("the cards are simulated"))
    divides.set("A", "slo")
    assert (divides.absence, divides.policies(), divides.status("A")) == ("the cards are simulated", {}, None)


def test_a_daemon_that_starts_asks_the_service():
    divides = SquadDivides()
    assert divides.policy_of("A") == "equal"
    divides.policy_source = {"A": "slo"}.__getitem__
    assert divides.policy_of("A") == "slo"
