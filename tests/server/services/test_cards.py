"""CardService: divide policies of shared cards, set per card or by the mode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.server.answers import SYSTEM, CardStatus, CardUser
from gpusquad.server.errors import NotFound
from gpusquad.server.services.sharing.cards import CardService, NoDivides
from gpusquad.store import card_divides
from gpusquad.store.database import Database
from tests.server.fake_divides import FakeDivides, check_divides

CARDS = [CardStatus(f"n0/{at}", "n0", at, "H200", 141 * 2**30, "free") for at in range(3)]


class World:
    """A store, three cards, a mode and fake card daemons."""

    def __init__(self, database: Database) -> None:
        self.database, self.now_us, self.mode = database, 5_000_000, "equal"
        self.divides: Any = FakeDivides()

    def service(self) -> CardService:
        return CardService(self.database, lambda: self.now_us, lambda: CARDS, lambda: self.mode, self.divides)


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


def test_fake_divides_keeps_the_contract():
    fake = FakeDivides()
    fake.start("a", "equal")
    check_divides(fake, "a", "b")


def test_set_policy_applies_to_the_card_immediately(world: World):
    world.divides.start("n0/0", "equal")
    made = world.service().set("0", "slo", SYSTEM, "try it")
    assert (made.policy, made.is_own, made.of_mode, made.effect) == ("slo", True, "equal", "live")
    assert made.setting is not None
    assert (made.setting.at_us, made.setting.by, made.setting.note) == (5_000_000, "gpusquad", "try it")
    assert world.divides.now == {"n0/0": "slo"}


def test_policy_with_a_deprecated_name_is_stored_under_its_current_name(world: World):
    world.divides.start("n0/0", "equal")
    made = world.service().set("0", "promised:squad_us=3000", SYSTEM)
    assert (made.policy, made.effect) == ("guaranteed:squad_us=3000", "live")
    assert [row.policy for row in world.service().revisions("0", 9)] == ["guaranteed:squad_us=3000"]
    assert world.divides.now == {"n0/0": "guaranteed:squad_us=3000"}


def test_settings_survive_a_restart_and_are_sent_again(world: World):
    world.service().set("0", "slo", SYSTEM)
    world.service().set("1", "jct", SYSTEM)
    world.service().set("1", None, SYSTEM)
    world.divides = FakeDivides()
    for card in ("n0/0", "n0/1", "n0/2"):
        world.divides.start(card, "priority")
    again = world.service()
    again.follow()
    assert world.divides.now == {"n0/0": "slo", "n0/1": "equal", "n0/2": "equal"}
    assert [again.policy_of(card.id) for card in CARDS] == ["slo", "equal", "equal"]


def test_cards_without_a_setting_follow_the_mode(world: World):
    service = world.service()
    world.divides.start("n0/0", "equal")
    world.divides.start("n0/1", "equal")
    service.set("1", "priority", SYSTEM)
    world.divides.sent.clear()
    world.mode = "jct"
    service.follow()
    assert world.divides.now == {"n0/0": "jct", "n0/1": "priority"}
    expected = {("n0/0", "jct"), ("n0/2", "jct")}
    assert set(world.divides.sent) == expected, "daemons that use the right policy already get no call"
    assert [card_policy.policy for card_policy in service.all()] == ["jct", "priority", "jct"]


def test_card_follows_the_mode_again_when_its_setting_is_removed(world: World):
    service = world.service()
    world.divides.start("n0/0", "equal")
    service.set("0", "slo", SYSTEM)
    made = service.set("0", None, SYSTEM, "enough")
    assert (made.policy, made.is_own, made.effect, world.divides.now["n0/0"]) == ("equal", False, "live", "equal")
    assert [(row.policy, row.note) for row in service.revisions("0", 10)] == [(None, "enough"), ("slo", "")]
    service.set("0", None, SYSTEM)
    assert len(service.revisions("0", 10)) == 2, "nothing was changed"


def test_equal_setting_is_stored_once(world: World):
    service = world.service()
    first = service.set("0", "slo", SYSTEM, "try it")
    assert service.set("0", " slo", SYSTEM, "try it").setting == first.setting
    assert service.set("0", "slo", SYSTEM, "really").setting != first.setting


def test_setting_of_a_virtual_card_applies_to_the_whole_card(world: World):
    user = CardUser("J", "chat", "ann", "a")
    parts = [CardStatus(f"GPU-1.{n}of2", "n0", n - 1, "H200", 1, "shared") for n in (1, 2)]
    parts[1] = replace(parts[1], jobs=(user,))
    world.divides.start("GPU-1", "equal")
    service = CardService(world.database, lambda: 1, lambda: parts, lambda: world.mode, world.divides)
    made = service.set("GPU-1.1of2", "slo", SYSTEM)
    assert (made.effect, world.divides.now) == ("live", {"GPU-1": "slo"})
    assert [card_policy.policy for card_policy in service.all()] == ["slo", "slo"]
    assert service.policy_of("GPU-1") == "slo"
    assert list(service.get("0").jobs) == [user]
    assert len(service.revisions("1", 10)) == 1
    world.mode = "jct"
    world.divides.sent.clear()
    service.set("1", None, SYSTEM)
    service.follow()
    assert world.divides.sent == [("GPU-1", "jct")]


def test_setting_of_an_unshared_card_is_kept_for_later(world: World):
    made = world.service().set("0", "slo", SYSTEM)
    assert (made.effect, made.policy) == ("unused", "slo")
    assert "applies when it is" in made.message


def test_unresponsive_daemon_is_reported_with_the_stored_policy(world: World):
    world.divides.hangs = "the card's daemon (process 77) does not answer"
    made = world.service().set("0", "slo", SYSTEM)
    assert (made.effect, made.policy) == ("told", "slo")
    assert made.message.startswith("the card's daemon (process 77) does not answer; the policy is stored")
    assert {card_policy.effect for card_policy in world.service().all()} == {"told"}


def test_setting_is_stored_with_a_message_when_shares_are_not_enforced(world: World):
    world.divides = NoDivides("the cards are simulated")
    made = world.service().set("0", "slo", SYSTEM)
    assert made.effect == "kept"
    assert made.message == "stored; takes effect where shares are enforced (the cards are simulated)"
    assert world.service().policy_of("n0/0") == "slo"


def test_slow_daemon_is_reported_with_its_old_policy(world: World):
    world.divides.start("n0/0", "equal")
    world.divides.is_slow = True
    made = world.service().set("0", "slo", SYSTEM)
    assert (made.effect, made.message) == ("told", "still divided by equal; changing")


def test_setting_reaches_a_failing_daemon_later(world: World):
    world.divides.start("n0/0", "equal")
    world.divides.fail = OSError("gone")
    service = world.service()
    assert service.set("0", "slo", SYSTEM).policy == "slo"
    assert service.get("0").status is None
    service.follow()
    world.divides.fail = None
    service.follow()
    assert world.divides.now["n0/0"] == "slo"


def test_setting_is_rolled_back_when_the_additional_write_fails(world: World):
    service = world.service()

    def fails(c: Any, card: str) -> None:
        raise RuntimeError(card)

    with pytest.raises(RuntimeError, match="n0/0"):
        service.set("0", "slo", SYSTEM, "", fails)
    assert service.policy_of("n0/0") == "equal"
    with world.database.read() as c:
        assert card_divides.latest(c) == {}
    assert world.divides.sent == []


@pytest.mark.parametrize(
    ("policy", "field", "message"),
    [
        ("nope", "policy", "choose from"),
        ("hybrid:alpha=much", "policy.hybrid.alpha", "not a number"),
        ("slo:colour=red", "policy.slo", "parameters:"),
        ("  ", "policy", "slo"),
    ],
)
def test_invalid_policy_is_refused_with_field_and_cure(world: World, policy: str, field: str, message: str):
    with pytest.raises(Invalid) as caught:
        world.service().set("0", policy, SYSTEM)
    assert caught.value.field == field
    assert message in f"{caught.value.problem} {caught.value.cure}"
    assert world.divides.sent == []


def test_setting_of_an_unknown_card_is_refused(world: World):
    with pytest.raises(NotFound, match="'9'"):
        world.service().set("9", "slo", SYSTEM)
