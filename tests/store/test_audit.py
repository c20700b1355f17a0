"""Tests for the audit log."""

from gpusquad.store import audit
from gpusquad.store.audit import AuditRow


def test_audit_rows_are_paged_newest_first(database):
    with database.write() as c:
        ids = [audit.append(c, number, "ada", "cancel", f"job-{number}", {"n": number}) for number in range(5)]
    with database.read() as c:
        first = audit.find(c, limit=3)
        assert first.items[0] == AuditRow(ids[4], 4, "ada", "cancel", "job-4", {"n": 4})
        assert first.next_cursor is not None
        second = audit.find(c, limit=3, cursor=first.next_cursor)
        assert [row.at_us for row in [*first.items, *second.items]] == [4, 3, 2, 1, 0]
        assert second.next_cursor is None


def test_audit_rows_are_filtered_by_actor_action_target_and_time(database):
    with database.write() as c:
        audit.append(c, 1, "ada", "cancel", "j1")
        audit.append(c, 2, "bob", "cancel", "j2")
        audit.append(c, 3, "ada", "drain", "n1")
    with database.read() as c:
        assert [row.at_us for row in audit.find(c, actor="ada").items] == [3, 1]
        assert [row.at_us for row in audit.find(c, action="cancel").items] == [2, 1]
        assert [row.at_us for row in audit.find(c, target="n1").items] == [3]
        assert [row.at_us for row in audit.find(c, since_us=2, until_us=3).items] == [2]
        assert audit.find(c, target="n1").items[0].data is None
