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


def test_failed_notice_waits_with_the_time_of_its_next_try(database, rule_id):
    with database.write() as c:
        id_ = add(c, rule_id, 10)
        assert notices.get(c, id_) == NoticeRow(
            id_, rule_id, "01J", "failed", "train-1 failed", "exit code 1", 0, 10, "waiting", "", 10
        )
        notices.failed(c, id_, "no route", next_us=50)
        (head,) = notices.heads(c)
        assert (head.id, head.tries, head.error, head.next_us) == (id_, 1, "no route", 50)
        notices.sent_all(c, [id_])
        assert notices.heads(c) == []
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
        assert notices.heads(c) == []
        assert notices.retry(c, id_, 20)
        assert [(row.tries, row.next_us) for row in notices.heads(c)] == [(0, 20)]


def test_waiting_notices_are_in_order_whatever_their_times(database, rule_id):
    with database.write() as c:
        other = notices.add_rule(c, "ada", ["failed"], "mailto://ada@lab", "mail", 1)
        ids = [add(c, rule, created_us) for rule, created_us in ((rule_id, 30), (other, 10), (rule_id, 20))]
        notices.failed(c, ids[0], "no", next_us=1000)
        assert [row.id for row in notices.heads(c)] == ids[:2]
        assert [row.id for row in notices.waiting(c, [rule_id, other], 10)] == ids
        assert [row.id for row in notices.waiting(c, [rule_id], 1)] == ids[:1]


def test_notices_added_together_keep_their_data_and_order(database, rule_id):
    with database.write() as c:
        rows = [notices.new(rule_id, "01J", "failed", f"n{n}", "", 5, {"id": n}) for n in range(3)]
        notices.add_all(c, rows)
        assert [(row.title, row.payload) for row in notices.waiting(c, [rule_id], 10)] == [
            (f"n{n}", {"id": n}) for n in range(3)
        ]


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
