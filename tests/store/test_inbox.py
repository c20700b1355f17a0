"""Tests for inboxes."""

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.store import inbox
from gpusquad.store.inbox import InboxRow


def entry(topic, user="ada", id_=0, at_us=1, **fields):
    usual = {"kind": "failed", "job_id": topic, "group_id": None, "count": 1, "title": topic, "body": "",
             "data": {"a": 1}, "first_us": at_us, "at_us": at_us}  # fmt: skip
    return InboxRow(id_, user, topic, **(usual | fields))


def titles(c, user="ada", **options):
    return [row.title for row in inbox.page(c, user, **options).items]


def test_inbox_is_paged_newest_first_for_its_user_only(database):
    with database.write() as c:
        inbox.put_all(c, [entry(f"t{n}") for n in range(5)] + [entry("x", "bob")])
        first = inbox.page(c, "ada", limit=3)
        second = inbox.page(c, "ada", limit=3, cursor=first.next_cursor)
        assert [row.title for row in [*first.items, *second.items]] == ["t4", "t3", "t2", "t1", "t0"]
        assert second.next_cursor is None
        assert titles(c, after=first.items[-1].id) == ["t4", "t3"]
        with pytest.raises(Invalid, match="cursor"):
            inbox.page(c, "ada", cursor="nonsense")


def test_replaced_entry_is_the_newest(database):
    with database.write() as c:
        inbox.put_all(c, [entry("a"), entry("b")])
        before = inbox.of_topics(c, {("ada", "a"), ("bob", "b"), ("ada", "c")})
        assert before.keys() == {("ada", "a")}
        inbox.put_all(c, [entry("a", id_=before["ada", "a"].id, title="a again")])
        assert titles(c) == ["a again", "b"]


def test_entries_are_marked_as_read_by_their_user_only(database):
    with database.write() as c:
        inbox.put_all(c, [entry(topic) for topic in "abcd"] + [entry("e", "bob")])
        ids = {row.title: row.id for row in inbox.page(c, "ada").items}
        assert inbox.mark_read(c, "bob", 5, ids=[ids["a"]]) == 0
        assert inbox.mark_read(c, "ada", 5, ids=[ids["d"], 10**6]) == 1
        assert inbox.mark_read(c, "ada", 6, up_to=ids["b"]) == 2
        assert inbox.mark_read(c, "ada", 7, up_to=ids["b"]) == 0
        assert (titles(c, unread=True), inbox.unread(c, "ada"), inbox.unread(c, "bob")) == (["c"], 1, 1)
        assert [row.read_us for row in inbox.page(c, "ada").items] == [5, None, 6, 6]


def test_inbox_is_trimmed_by_age_and_by_count(database):
    with database.write() as c:
        inbox.put_all(c, [entry(f"t{n}", at_us=n) for n in range(10)] + [entry("x", "bob", at_us=50)])
        assert inbox.trim(c, before_us=3, most=100, keep=5) == 5
        assert titles(c) == ["t9", "t8", "t7", "t6", "t5"]
        assert titles(c, "bob") == ["x"]
        assert inbox.trim(c, before_us=3, most=100, keep=5) == 0
