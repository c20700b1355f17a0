"""API of the inbox."""

from __future__ import annotations

import pytest

from gpusquad.store import inbox, jobs
from gpusquad.store.inbox import InboxRow
from gpusquad.store.jobs import JobRow
from tests.server.rig import Rig, error_of

S = 1_000_000


def put(rig: Rig, *names: str, user: str = "ann", **fields) -> None:
    reason = {"code": "exit_code", "text": "exit code 1"}
    usual = {"kind": "failed", "group_id": None, "count": 1, "body": "why", "first_us": 2 * S, "at_us": 3 * S,
             "data": {"name": "train", "state": "failed", "reason": reason}}  # fmt: skip
    rows = [InboxRow(0, user, name, **({"job_id": name, "title": name} | usual | fields)) for name in names]
    with rig.database.write() as c:
        inbox.put_all(c, rows)


def listed(rig: Rig, user: str = "ann", **query):
    answer = rig.get("inbox", user, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_inbox_is_empty_without_notices(rig: Rig) -> None:
    assert listed(rig) == {"items": [], "next": None, "unread": 0}


def test_entry_shows_the_notice(rig: Rig) -> None:
    put(rig, "j1")
    (entry,) = listed(rig)["items"]
    assert entry == {
        "id": 1, "kind": "failed", "job": "j1", "group": None, "name": "train", "state": "failed",
        "reason": {"code": "exit_code", "text": "exit code 1"}, "count": 1, "ends": None, "jobs": None, "failed": [],
        "title": "j1", "body": "why", "first_s": 2.0, "at_s": 3.0, "read": False,
    }  # fmt: skip


def test_entry_of_a_batch_counts_its_ends(rig: Rig) -> None:
    data = {"name": "sweep", "jobs": 6, "counts": {"succeeded": 4, "failed": 1}, "failed": [{"id": "j", "name": "n"}]}
    put(rig, "t", job_id=None, group_id="g", count=5, data=data)
    (entry,) = listed(rig)["items"]
    assert (entry["job"], entry["group"], entry["jobs"], entry["count"]) == (None, "g", 6, 5)
    assert entry["ends"] == {"succeeded": 4, "failed": 1}
    assert entry["failed"] == [{"id": "j", "name": "n"}]


def test_everybody_sees_the_own_inbox_only(rig: Rig) -> None:
    put(rig, "mine")
    put(rig, "theirs", user="amy")
    assert [entry["title"] for entry in listed(rig)["items"]] == ["mine"]
    assert listed(rig, "root")["items"] == []
    answer = rig.post("inbox/read", "root", json={"up_to": 1000})
    assert answer.json() == {"marked": 0, "unread": 0}
    assert listed(rig)["unread"] == 1


def test_pages_and_filters(rig: Rig) -> None:
    put(rig, *"abcde")
    first = listed(rig, limit=2)
    second = listed(rig, limit=3, cursor=first["next"])
    assert [one["title"] for one in [*first["items"], *second["items"]]] == list("edcba")
    assert (first["unread"], second["next"]) == (5, None)
    assert [one["title"] for one in listed(rig, after=3)["items"]] == ["e", "d"]
    assert rig.post("inbox/read", json={"ids": [5], "up_to": 2}).json() == {"marked": 3, "unread": 2}
    assert [one["title"] for one in listed(rig, unread=True)["items"]] == ["d", "c"]


def test_entries_about_a_job_are_its_own_and_those_of_its_batch(rig: Rig) -> None:
    with rig.database.write() as c:
        jobs.insert(c, [JobRow("j1", "j1", "vision", "ann", group_id="g"), JobRow("j2", "j2", "vision", "ann")])
    put(rig, "j1", "j2")
    put(rig, "batch", job_id=None, group_id="g")
    put(rig, "burst", job_id=None)
    put(rig, "theirs", user="amy", job_id="j1")
    assert [one["title"] for one in listed(rig, job="j1")["items"]] == ["batch", "j1"]
    assert [one["title"] for one in listed(rig, job="j2")["items"]] == ["j2"]
    assert listed(rig, job="nobody")["items"] == []


def test_viewer_may_mark_the_own_inbox_as_read(rig: Rig) -> None:
    put(rig, "a", user="vic")
    assert rig.post("inbox/read", "vic", json={"up_to": 9}).json() == {"marked": 1, "unread": 0}


@pytest.mark.parametrize("body", [{}, {"ids": []}, {"ids": [0]}, {"up_to": 0}, {"ids": [1] * 1001}, {"all": True}])
def test_unclear_marks_are_refused(rig: Rig, body: dict) -> None:
    answer = rig.post("inbox/read", json=body)
    assert answer.status_code in (400, 422)
    error_of(answer)
