"""Tests for notice rules and the notice outbox."""

import pytest

from gpusquad.store import notices
from gpusquad.store.errors import StoreConflict
from gpusquad.store.notices import NoticeRow, RuleRow


@pytest.fixture
def rule_id(database):
    with database.write() as c:
        return notices.add_rule(c, "ada", ["failed", "started"], "mailto://ada@lab", "mail", 1)


def add(c, rule_id, created_us):
    return notices.add(c, rule_id, "01J", "failed", "train-1 failed", "exit code 1", created_us)


def test_rules_are_added_listed_and_removed(database, rule_id):
    with database.write() as c:
        other = notices.add_rule(c, "bob", ["failed"], "json://host", "", 2)
        ada = RuleRow(rule_id, "ada", ["failed", "started"], "mailto://ada@lab", "mail", 1)
        assert notices.rule(c, rule_id) == ada
        assert [rule.id for rule in notices.rules(c)] == [rule_id, other]
        assert notices.rules(c, "ada") == [ada]
        assert notices.remove_rule(c, other)
        assert not notices.remove_rule(c, other)
        assert notices.rule(c, other) is None


def test_failed_notice_is_retried_and_sent(database, rule_id):
    with database.write() as c:
        id_ = add(c, rule_id, 10)
        assert notices.get(c, id_) == NoticeRow(
            id_, rule_id, "01J", "failed", "train-1 failed", "exit code 1", 0, 10, "waiting", "", 10
        )
        assert notices.due(c, 9) == []
        assert [row.id for row in notices.due(c, 10)] == [id_]
        notices.failed(c, id_, "no route", next_us=50)
        assert notices.due(c, 49) == []
        assert notices.next_due_us(c) == 50
        (retried,) = notices.due(c, 50)
        assert (retried.tries, retried.error) == (1, "no route")
        notices.sent(c, id_)
        assert notices.due(c, 10**9) == []
        assert notices.next_due_us(c) is None
        delivered = notices.get(c, id_)
        assert delivered is not None
        assert (delivered.state, delivered.tries, delivered.error) == ("sent", 2, "")


def test_dead_notice_can_be_retried(database, rule_id):
    with database.write() as c:
        id_ = add(c, rule_id, 10)
        assert not notices.retry(c, id_, 20)
        notices.failed(c, id_, "x" * 100_000, next_us=None)
        (dead,) = notices.dead(c)
        assert (dead.id, dead.tries, len(dead.error)) == (id_, 1, 2000)
        assert notices.due(c, 10**9) == []
        assert notices.retry(c, id_, 20)
        assert [(row.tries, row.next_us) for row in notices.due(c, 20)] == [(0, 20)]


def test_due_notices_are_listed_longest_overdue_first(database, rule_id):
    with database.write() as c:
        ids = [add(c, rule_id, created_us) for created_us in (30, 10, 20)]
        assert [row.id for row in notices.due(c, 100, limit=2)] == [ids[1], ids[2]]


def test_outbox_is_paged_newest_first(database, rule_id):
    with database.write() as c:
        other = notices.add_rule(c, "bob", [], "json://host", "", 2)
        ids = [add(c, rule_id, number) for number in range(4)] + [add(c, other, 9)]
        notices.sent(c, ids[0])
        first = notices.outbox(c, user="ada", limit=3)
        second = notices.outbox(c, user="ada", limit=3, cursor=first.next_cursor)
        assert [row.id for row in [*first.items, *second.items]] == ids[3::-1]
        assert second.next_cursor is None
        assert [row.id for row in notices.outbox(c, "sent").items] == [ids[0]]


def test_notices_are_removed_with_their_rule(database, rule_id):
    with database.write() as c:
        id_ = add(c, rule_id, 1)
        notices.remove_rule(c, rule_id)
        assert notices.get(c, id_) is None


def test_notice_without_a_rule_conflicts(database):
    with pytest.raises(StoreConflict), database.write() as c:
        add(c, 12345, 1)
