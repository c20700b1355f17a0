"""Tests for settings, policy revisions and marks."""

from gpusquad.store import marks, policy, settings
from gpusquad.store.marks import MarkRow
from gpusquad.store.policy import PolicyRow


def test_settings_are_stored_replaced_and_removed(database):
    with database.write() as c:
        assert settings.get(c, "clock") is None
        assert settings.get(c, "clock", 7) == 7
        settings.put(c, "clock", 2**60)
        settings.put(c, "clock", 2**61)
        settings.put(c, "nothing", None)
        assert settings.get(c, "clock") == 2**61
        assert settings.get(c, "nothing", 7) is None
        assert settings.remove(c, "clock")
        assert not settings.remove(c, "clock")


def test_policy_revisions_are_listed_newest_first(database):
    with database.write() as c:
        assert policy.latest(c) is None
        first = policy.append(c, 1, "ada", {"mode": "fair"})
        second = policy.append(c, 2, "bob", {"order": "las:quantum_s=600"}, "try it")
        assert first < second
        assert policy.latest(c) == PolicyRow(second, 2, "bob", {"order": "las:quantum_s=600"}, "try it")
        assert [row.revision for row in policy.all(c, 10)] == [second, first]
        assert len(policy.all(c, 1)) == 1


def test_marks_are_stored_filtered_and_removed(database):
    drain = MarkRow("01A", "drain", "n1", 5, None, "ada", "fan")
    window = MarkRow("01B", "window", "n1", 3, 9, "bob", "firmware")
    with database.write() as c:
        marks.put(c, drain)
        marks.put(c, window)
        assert marks.get(c, "01A") == drain
        assert marks.all(c) == [window, drain]
        assert marks.all(c, "drain") == [drain]
        assert marks.all(c, target="n2") == []
        marks.put(c, MarkRow("01B", "window", "n2", 3))
        assert marks.all(c, "window", "n2") == [MarkRow("01B", "window", "n2", 3)]
        assert marks.remove_of(c, "drain", "n1") == 1
        assert marks.remove(c, "01B")
        assert not marks.remove(c, "01B")
        assert marks.get(c, "01B") is None
