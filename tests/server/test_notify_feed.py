"""The feed: events of jobs become entries of inboxes and messages to channels."""

from dataclasses import replace

import pytest

from gpusquad.server.notify.collect import BURST_FROM, BURST_US, COLLECT_FROM, ends_of
from gpusquad.server.notify.feed import POSITION, NoticeFeed
from gpusquad.server.notify.rules import LONG_WAIT_US
from gpusquad.store import attempts, events, inbox, jobs, notices, people, settings
from gpusquad.store.attempts import AttemptRow
from gpusquad.store.database import Database
from gpusquad.store.errors import StoreUnavailable
from gpusquad.store.jobs import JobRow

S = 1_000_000
SPEC = {"command": ["true"]}
"""A job that was submitted to the service has one; a job found in the cluster has none."""


@pytest.fixture
def database(tmp_path):
    database = Database(tmp_path / "gpusquad.db")
    database.migrate()
    with database.write() as c:
        for tenant in ("vision", "nlp"):
            people.put_tenant(c, people.TenantRow(tenant))
        for user, tenant in (("ann", "vision"), ("bob", "vision"), ("eve", "nlp")):
            people.put_user(c, people.UserRow(user, tenant))
        people.put_user(c, people.UserRow("gone", "vision", disabled=True))
    yield database
    database.close()


@pytest.fixture
def feed(database):
    feed = NoticeFeed(database, "https://gpus.example.org/")
    feed.step()  # the past is no news
    return feed


def submit(database, *names, **fields):
    rows = [JobRow(name, name, "vision", "ann", gpus=1, spec=SPEC) for name in names]
    with database.write() as c:
        jobs.insert(c, [replace(row, **fields) for row in rows])


def happens(database, job_id, kind, state="", cause="", at_us=1, attempt=0, data=None, actor=""):
    with database.write() as c:
        return events.append(c, job_id, at_us, kind, state or kind, attempt, cause, data, actor)


def ends(database, *job_ids, state="succeeded", at_us=1):
    for job_id in job_ids:
        with database.write() as c:
            jobs.change(c, job_id, state=state, ended_us=at_us)
        happens(database, job_id, state, at_us=at_us)


def entries(database, user="ann"):
    """Oldest first."""
    with database.read() as c:
        return list(reversed(inbox.page(c, user).items))


def titles(database, user="ann"):
    return [row.title for row in entries(database, user)]


def waiting(database):
    with database.read() as c:
        return [row for head in notices.heads(c) for row in notices.waiting(c, [head.rule_id], 100)]


# -- inboxes


def test_inbox_gets_the_end_of_a_job_without_any_rule(database, feed):
    submit(database, "train")
    happens(database, "train", "pending")
    happens(database, "train", "starting")
    happens(database, "train", "running", at_us=5)
    happens(database, "train", "failed", cause="exit code 1", at_us=9)
    assert feed.step() == 4
    (entry,) = entries(database)
    assert (entry.title, entry.kind, entry.job_id, entry.at_us) == ("train has failed", "failed", "train", 9)
    assert entry.data == {"name": "train", "state": "failed", "reason": {"code": "failed", "text": "exit code 1"}}
    assert entry.read_us is None
    assert titles(database, "bob") == []


def test_events_before_the_first_start_of_the_feed_are_no_news(database):
    submit(database, "old", "new")
    happens(database, "old", "failed")
    feed = NoticeFeed(database)
    assert feed.step() == 0
    happens(database, "new", "failed")
    feed.step()
    assert titles(database) == ["new has failed"]


def test_each_event_is_handled_once_when_the_service_dies_while_writing(database, feed, monkeypatch):
    submit(database, "train")
    happens(database, "train", "failed")
    with monkeypatch.context() as broken:
        broken.setattr(settings, "put", lambda *_: (_ for _ in ()).throw(StoreUnavailable("disk full")))
        with pytest.raises(StoreUnavailable):
            feed.step()
    assert titles(database) == [], "neither the notice nor the position is stored"
    for _ in range(2):
        after_restart = NoticeFeed(database)
        after_restart.step()
    assert [(row.title, row.count) for row in entries(database)] == [("train has failed", 1)]


def test_position_is_that_of_the_last_event(database, feed):
    submit(database, "train")
    number = happens(database, "train", "updated", "running")
    feed.step()
    with database.read() as c:
        assert settings.get(c, POSITION) == number


def test_sweep_is_one_entry_that_counts(database, feed):
    names = [f"sweep-{n}" for n in range(412)]
    submit(database, *names, group_id="g1")
    ends(database, *names[:400], at_us=10)
    ends(database, *names[400:411], state="failed", at_us=20)
    ends(database, names[411], state="timed_out", at_us=30)
    while feed.step():
        pass
    (entry,) = entries(database)
    assert entry.title == ("sweep: 412 of 412 jobs ended: 400 succeeded, 11 failed, 1 stopped at their time limit")
    assert (entry.kind, entry.job_id, entry.group_id, entry.count) == ("failed", None, "g1", 412)
    assert (entry.first_us, entry.at_us) == (10, 30)
    assert ends_of(entry) == {"succeeded": 400, "failed": 11, "timed_out": 1}
    assert entry.data is not None
    assert [one["id"] for one in entry.data["failed"]] == names[400:405]
    assert "and 7 more" in entry.body
    assert "gpusquad history --mine --group g1 --state failed,timed_out" in entry.body


def test_entry_with_news_is_unread_and_newest_again(database, feed):
    names = [f"n{n}" for n in range(COLLECT_FROM)]
    submit(database, *names, group_id="g1")
    submit(database, "other")
    ends(database, names[0], at_us=1)
    ends(database, "other", at_us=2)
    feed.step()
    first = entries(database)
    with database.write() as c:
        inbox.mark_read(c, "ann", 3, up_to=first[-1].id)
    ends(database, names[1], at_us=4)
    feed.step()
    other, batch = entries(database)
    assert (other.title, batch.title) == ("other has finished", f"n: 2 of {COLLECT_FROM} jobs ended: 2 succeeded")
    assert (other.read_us, batch.read_us) == (3, None)
    assert batch.id > other.id > first[0].id


def test_small_batch_has_an_entry_for_each_job(database, feed):
    names = [f"n{n}" for n in range(COLLECT_FROM - 1)]
    submit(database, *names, group_id="g1")
    ends(database, *names)
    feed.step()
    assert titles(database) == [f"{name} has finished" for name in names]


def test_burst_of_single_jobs_shares_an_entry_until_it_is_over(database, feed):
    names = [f"job{n}" for n in range(2 * BURST_FROM)]
    submit(database, *names, "late")
    ends(database, *names, at_us=10)
    feed.step()
    assert titles(database)[-1] == f"job: {BURST_FROM} jobs ended: {BURST_FROM} succeeded"
    assert len(titles(database)) == BURST_FROM + 1
    ends(database, "late", at_us=11 + BURST_US)
    feed.step()
    assert titles(database)[-1] == "late has finished"


def test_repeated_news_of_a_job_are_one_entry(database, feed):
    submit(database, "train")
    for attempt in range(3):
        happens(database, "train", "lost", cause=f"card {attempt} failed", at_us=attempt, attempt=attempt)
    feed.step()
    (entry,) = entries(database)
    assert (entry.title, entry.count) == ("train was lost (3 times)", 3)
    assert "card 2 failed" in entry.body


def test_other_news_of_a_batch_share_an_entry_of_their_kind(database, feed):
    names = [f"n{n}" for n in range(COLLECT_FROM)]
    submit(database, *names, group_id="g1")
    for name in names[:3]:
        happens(database, name, "overrun", "running")
    happens(database, names[0], "hung", "running", data={"rule": "nan"})
    feed.step()
    assert titles(database) == [
        "n: 3 notices that a job runs longer than predicted", "n0: 1 notices that a job may be hanging"
    ]  # fmt: skip
    assert [ends_of(row) for row in entries(database)] == [None, None]


def test_collected_notices_have_their_common_or_newest_reason(database, feed):
    names = [f"n{n}" for n in range(COLLECT_FROM)]
    submit(database, *names, group_id="g1")
    for name in names[:3]:
        happens(database, name, "held", cause="suspected: 3 cards failed")
    feed.step()
    (entry,) = entries(database)
    assert entry.data["reason"] == {"code": "held", "text": "suspected: 3 cards failed"}
    assert "\nCause: suspected: 3 cards failed\n" in entry.body
    happens(database, names[3], "held", cause="held by root", actor="root")
    feed.step()
    (entry,) = entries(database)
    assert entry.data["reason"] == {"code": "held", "text": "held by root"}
    assert "\nCause of the latest: held by root\n" in entry.body


def test_reason_of_a_batch_that_ended_is_that_of_its_newest_failure(database, feed):
    names = [f"n{n}" for n in range(COLLECT_FROM)]
    submit(database, *names, group_id="g1")
    ends(database, names[0])
    feed.step()
    assert entries(database)[0].data["reason"] is None
    happens(database, names[1], "failed", cause="exit code 3")
    ends(database, *names[2:])
    feed.step()
    (entry,) = entries(database)
    assert entry.data["reason"]["text"] == "exit code 3"


def test_start_is_news_after_a_long_wait_only(database, feed):
    submit(database, "quick", "slow")
    happens(database, "quick", "running", at_us=LONG_WAIT_US - 1)
    happens(database, "slow", "running", at_us=LONG_WAIT_US)
    feed.step()
    assert titles(database) == ["slow has started"]


# -- owners


@pytest.mark.parametrize(
    ("tenant", "user", "spec", "expected"),
    [
        ("vision", "ann", {}, {"ann"}),
        ("vision", "vision", {}, {"ann", "bob"}),  # the pod names nobody, so its user is its namespace
        ("vision", "eve", {}, {"ann", "bob"}),  # a pod must not write to the inbox of another tenant
        ("nobody", "ann", {}, set()),
        ("nlp", "ann", SPEC, {"ann"}),  # an administrator submitted it for another tenant
    ],
)
def test_notice_goes_to_the_owner_or_the_tenant_of_a_pod(database, feed, tenant, user, spec, expected):
    submit(database, "pod", tenant=tenant, user=user, spec=spec)
    happens(database, "pod", "failed")
    feed.step()
    assert {name for name in ("ann", "bob", "eve", "gone") if titles(database, name)} == expected


def test_channels_of_the_tenant_get_notices_of_a_pod_that_names_nobody(database, feed):
    with database.write() as c:
        notices.add_rule(c, "bob", ["failed"], "json://b", "", 0)
    submit(database, "pod", user="vision", spec={})
    happens(database, "pod", "failed")
    feed.step()
    assert [row.title for row in waiting(database)] == ["pod has failed"]


# -- messages to channels


def test_message_carries_the_notice_as_data(database, feed):
    with database.write() as c:
        rule = notices.add_rule(c, "ann", ["failed"], "json://a", "", 0)
        attempts.open(c, AttemptRow("train", 2, "vision", "ann", 3 * S))
        attempts.close(c, "train", 2, 7 * S, "failed")
    submit(database, "train", submitted_us=2 * S, result={"task": 0, "exit_code": 3}, group_id="g1")
    number = happens(database, "train", "failed", cause="exit code 3", at_us=8 * S, attempt=2)
    feed.step()
    (row,) = waiting(database)
    assert (row.rule_id, row.kind, row.created_us) == (rule, "failed", 8 * S)
    assert row.payload == {
        "version": 1,
        "id": f"train.{number}",
        "event": "failed",
        "event_id": number,
        "job": {"id": "train", "name": "train", "tenant": "vision", "user": "ann", "group": "g1", "gpus": 1,
                "state": "failed", "attempt": 2},
        "reason": {"code": "exit_code", "text": "exit code 3"},
        "times": {"submitted_s": 2.0, "started_s": 3.0, "ended_s": 7.0, "at_s": 8.0},
        "link": "https://gpus.example.org/jobs/train",
    }  # fmt: skip


def test_notice_of_a_retry_names_the_times_of_the_attempt_that_failed(database, feed):
    with database.write() as c:
        notices.add_rule(c, "ann", ["retried"], "json://a", "", 0)
        attempts.open(c, AttemptRow("train", 0, "vision", "ann", 3 * S))
    submit(database, "train")
    happens(database, "train", "retry", "held", attempt=1)
    feed.step()
    (row,) = waiting(database)
    assert row.payload is not None
    assert (row.payload["times"]["started_s"], row.payload["job"]["attempt"]) == (3.0, 1)


def test_rules_get_kinds_that_no_inbox_gets(database, feed):
    with database.write() as c:
        notices.add_rule(c, "ann", ["queued", "started"], "json://a", "", 0)
    submit(database, "train")
    happens(database, "train", "pending")
    happens(database, "train", "running")
    feed.step()
    assert [row.kind for row in waiting(database)] == ["queued", "started"]
    assert titles(database) == []


def test_notice_that_cannot_be_written_does_not_stop_the_feed(database, feed, monkeypatch):
    from gpusquad.server.notify import feed as module

    submit(database, "bad", "good")
    happens(database, "bad", "failed")
    happens(database, "good", "failed")
    real = module.write

    def write(kind, job, event):
        if job.id == "bad":
            raise ZeroDivisionError
        return real(kind, job, event)

    monkeypatch.setattr(module, "write", write)
    feed.step()
    assert titles(database) == ["good has failed"]


# -- thread


def test_settle_waits_until_stored_events_are_handled(database):
    submit(database, "train")
    feed = NoticeFeed(database)
    feed.start()
    happens(database, "train", "failed")
    assert feed.settle(30.0)
    assert titles(database) == ["train has failed"]
    feed.stop()
    assert not feed._thread.is_alive()
