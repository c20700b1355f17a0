"""Tests for the divide policies of single cards and their revisions."""

from gpusquad.store import card_divides
from gpusquad.store.card_divides import CardDivideRow


def test_latest_returns_the_newest_revision_of_each_card(database):
    with database.write() as c:
        assert card_divides.latest(c) == {}
        first = card_divides.append(c, 1, "ada", "n0/0", "slo")
        other = card_divides.append(c, 2, "ada", "n0/1", "hybrid:alpha=0.5", "try it")
        second = card_divides.append(c, 3, "bob", "n0/0", None, "enough")
        assert first < other < second
        assert card_divides.latest(c) == {
            "n0/0": CardDivideRow(second, 3, "bob", "n0/0", None, "enough"),
            "n0/1": CardDivideRow(other, 2, "ada", "n0/1", "hybrid:alpha=0.5", "try it"),
        }


def test_revisions_of_a_card_are_listed_newest_first(database):
    with database.write() as c:
        numbers = [card_divides.append(c, at_us, "ada", card, "slo") for at_us, card in enumerate("aba")]
        assert [row.revision for row in card_divides.of_card(c, "a")] == [numbers[2], numbers[0]]
        assert [row.revision for row in card_divides.of_card(c, "a", 1)] == [numbers[2]]
        assert card_divides.of_card(c, "c") == []
