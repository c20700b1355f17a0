"""Outbox and loop of notices: writing, sending, retries and digests."""

import threading
from types import SimpleNamespace

import pytest

from gpusquad.server.notify.channels import AllowList, SendFailed
from gpusquad.server.notify.loop import NoticeLoop
from gpusquad.server.notify.outbox import DIGEST_FROM, Backoff, Outbox
from gpusquad.server.notify.sender import ChannelSender
from gpusquad.store import notices, people
from gpusquad.store.database import Database
from gpusquad.store.errors import StoreUnavailable
from gpusquad.store.events import EventRow
from gpusquad.store.jobs import JobRow
from tests.server.webhook import webhook

S = 1_000_000
JOB = JobRow("01JABCDEFGHJKMNPQRSTVWXYZ0", "train", "vision", "ann", gpus=2, state="failed")
FAILED = EventRow(1, JOB.id, 0, "failed", "failed", 0, "exit code 1")


class Clock:
    def __init__(self):
        self.at_us = 1_000 * S

    def __call__(self):
        return self.at_us


class FakeSender:
    """Raises the given failures first, then sends."""

    def __init__(self, *failures):
        self.failures = list(failures)
        self.sent = []
        self.attempts = []

    def send(self, url, title, body):
        self.attempts.append((url, title))
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.sent.append((url, title, body))


@pytest.fixture
def database(tmp_path):
    database = Database(tmp_path / "gpusquad.db")
    database.migrate()
    with database.write() as c:
        people.put_tenant(c, people.TenantRow("vision"))
        people.put_user(c, people.UserRow("ann", "vision"))
        people.put_user(c, people.UserRow("bob", "vision"))
    yield database
    database.close()


@pytest.fixture
def clock():
    return Clock()


def outbox(database, sender, clock, **options):
    counts = []
    box = Outbox(database, sender, clock, count=counts.append, **options)
    return box, counts


def add_rule(database, url="slack://a", user="ann", kinds=("failed", "started")):
    with database.write() as c:
        return notices.add_rule(c, user, list(kinds), url, "", 0)


def fail_job(database, box, clock, job=JOB, event=FAILED):
    with database.write() as c:
        return box.enqueue(
            c, EventRow(1, job.id, clock(), event.kind, event.state, 0, event.cause), job, notices.rules(c)
        )


def rows(database, state=None):
    with database.read() as c:
        return list(reversed(notices.outbox(c, state).items))


# -- writing


def test_notice_is_written_in_the_transaction_of_its_event(database, clock):
    add_rule(database)
    box, _ = outbox(database, FakeSender(), clock)

    def write_and_roll_back():
        with database.write() as c:
            assert box.enqueue(c, FAILED, JOB, notices.rules(c)) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_roll_back()
    assert rows(database) == []
    assert fail_job(database, box, clock) == 1
    assert [(row.kind, row.job_id, row.state) for row in rows(database)] == [("failed", JOB.id, "waiting")]


def test_only_the_owner_gets_notices_of_the_requested_kinds(database, clock):
    add_rule(database, kinds=["started"])
    add_rule(database, user="bob")
    box, _ = outbox(database, FakeSender(), clock)
    assert fail_job(database, box, clock) == 0
    job_with_notify = JobRow(**{name: getattr(JOB, name) for name in JOB.__slots__} | {"spec": {"notify": ["failed"]}})
    assert fail_job(database, box, clock, job_with_notify) == 1


def test_events_of_the_scheduler_become_notices(database, clock):
    add_rule(database)
    box, _ = outbox(database, FakeSender(), clock)
    batch = [
        SimpleNamespace(row=JOB, at_us=5, kind=kind, cause="why", actor="", data=None) for kind in ("failed", "updated")
    ]
    with database.write() as c:
        box.note(c, batch)
    assert [(row.kind, row.created_us) for row in rows(database)] == [("failed", 5)]


# -- sending


def test_notice_is_retried_when_the_webhook_fails(database, clock):
    with webhook(500, 503, 200) as hook:
        add_rule(database, hook.url("/s3cret"))
        box, counts = outbox(database, ChannelSender(AllowList.parse(["json@127.0.0.1"])), clock)
        fail_job(database, box, clock)
        assert box.deliver_due() == 1
        (row,) = rows(database)
        assert (row.state, row.tries, row.error) == ("waiting", 1, "the channel answered 500")
        assert row.next_us == clock() + 15 * S == box.next_due_us()
        assert box.deliver_due() == 0
        clock.at_us = row.next_us
        assert box.deliver_due() == 1
        clock.at_us += 30 * S
        assert box.deliver_due() == 1
    assert len(hook.received) == 3
    assert hook.received[2]["title"] == "train has failed"
    assert "exit code 1" in hook.received[2]["message"]
    assert [(row.state, row.error) for row in rows(database)] == [("sent", "")]
    assert counts == ["retried", "retried", "sent"]
    assert box.next_due_us() is None


def test_retry_delays_double_up_to_the_maximum(database, clock):
    add_rule(database)
    box, _ = outbox(database, FakeSender(*[SendFailed("no")] * 9), clock, backoff=Backoff(10, 100, tries=8))
    fail_job(database, box, clock)
    delays_s = []
    while box.deliver_due():
        (row,) = rows(database)
        delays_s.append((row.next_us - clock()) // S)
        clock.at_us = row.next_us
    assert delays_s[:-1] == [10, 20, 40, 80, 100, 100, 100]
    assert row.state == "dead"
    assert row.tries == 8


def test_dead_notice_can_be_retried(database, clock):
    add_rule(database)
    sender = FakeSender(SendFailed("gone", permanent=True))
    box, counts = outbox(database, sender, clock)
    fail_job(database, box, clock)
    box.deliver_due()
    (row,) = rows(database, "dead")
    assert (row.tries, row.error) == (1, "gone")
    assert box.retry(row.id)
    assert not box.retry(row.id)
    assert not box.retry(10**6)
    box.deliver_due()
    assert [title for _, title, _ in sender.sent] == ["train has failed"]
    assert counts == ["dead", "sent"]


def test_old_notice_is_not_retried(database, clock):
    add_rule(database)
    box, _ = outbox(database, FakeSender(SendFailed("no")), clock, backoff=Backoff(give_up_s=60))
    fail_job(database, box, clock)
    clock.at_us += 61 * S
    box.deliver_due()
    assert [row.state for row in rows(database)] == ["dead"]


def test_broken_channel_does_not_delay_others(database, clock):
    add_rule(database, "slack://broken")
    add_rule(database, "slack://works")

    class Sender(FakeSender):
        def send(self, url, title, body):
            if "broken" in url:
                raise ValueError(url)
            super().send(url, title, body)

    sender = Sender()
    box, counts = outbox(database, sender, clock)
    fail_job(database, box, clock)
    assert box.deliver_due() == 2
    assert [url for url, _, _ in sender.sent] == ["slack://works"]
    assert [row.error for row in rows(database, "waiting")] == ["failed with ValueError"]
    assert sorted(counts) == ["retried", "sent"]


def test_notices_of_a_channel_stay_in_order_after_a_failure(database, clock):
    add_rule(database)
    sender = FakeSender(SendFailed("no"))
    box, _ = outbox(database, sender, clock)
    for name in ("a", "b"):
        fail_job(database, box, clock, JobRow(name, name, "vision", "ann"))
    box.deliver_due()
    assert [title for _, title in sender.attempts] == ["a has failed"]
    clock.at_us += 15 * S
    box.deliver_due()
    assert [title for _, title, _ in sender.sent] == ["a has failed", "b has failed"]


def test_many_notices_are_sent_as_one_digest(database, clock):
    add_rule(database)
    sender = FakeSender(SendFailed("no"))
    box, _ = outbox(database, sender, clock)
    for number in range(DIGEST_FROM):
        fail_job(database, box, clock, JobRow(f"j{number}", f"j{number}", "vision", "ann"))
    box.deliver_due()
    clock.at_us += 15 * S
    box.deliver_due()
    ((_, title, body),) = sender.sent
    assert title == f"{DIGEST_FROM} notices"
    assert body.splitlines()[:2] == ["j0 has failed", "j1 has failed"]
    assert {row.state for row in rows(database)} == {"sent"}


def test_notices_of_a_removed_rule_are_not_sent(database, clock):
    rule = add_rule(database)
    box, _ = outbox(database, FakeSender(), clock)
    fail_job(database, box, clock)
    with database.write() as c:
        notices.remove_rule(c, rule)
    assert box.deliver_due() == 0
    assert box.next_due_us() is None


def test_notices_are_sent_outside_of_transactions(database, clock):
    add_rule(database)

    class Sender(FakeSender):
        def send(self, url, title, body):
            with database.write():  # would deadlock if the outbox held the lock
                super().send(url, title, body)

    sender = Sender()
    box, _ = outbox(database, sender, clock)
    fail_job(database, box, clock)
    box.deliver_due()
    assert len(sender.sent) == 1


def test_notice_is_sent_once_when_the_store_fails_after_sending(database, clock, monkeypatch):
    add_rule(database)
    sender = FakeSender()
    box, counts = outbox(database, sender, clock)
    fail_job(database, box, clock)
    with monkeypatch.context() as broken:
        broken.setattr(notices, "sent", lambda *_: (_ for _ in ()).throw(StoreUnavailable("disk full")))
        with pytest.raises(StoreUnavailable):
            box.deliver_due()
        with pytest.raises(StoreUnavailable):
            box.deliver_due()
    assert box.deliver_due() == 0
    assert len(sender.sent) == 1
    assert counts == ["sent"]
    assert [row.state for row in rows(database)] == ["sent"]


# -- thread


def test_loop_sends_when_woken_and_stops_on_request(database, clock):
    with webhook() as hook:
        add_rule(database, hook.url())
        sender = ChannelSender(AllowList.parse(["json@127.0.0.1"]))
        box, _ = outbox(database, sender, clock)
        loop = NoticeLoop(box, sender)
        loop.start()
        for _ in range(2):
            fail_job(database, box, clock)
            loop.heard([(1, SimpleNamespace(row=JOB, kind="failed"))])
            assert hook.arrived.acquire(timeout=30)
        loop.stop()
        assert not loop._thread.is_alive()
    assert [row.state for row in rows(database)] == ["sent", "sent"]


def test_loop_survives_errors_of_the_store(database, clock, monkeypatch):
    add_rule(database)
    sent = threading.Event()
    sender = SimpleNamespace(send=lambda *_: sent.set())
    box, _ = outbox(database, sender, clock)
    fail_job(database, box, clock)
    was_called, deliver = threading.Event(), box.deliver_due
    answers = [StoreUnavailable("away"), ZeroDivisionError()]

    def deliver_after_errors():
        if answers:
            error = answers.pop(0)
            was_called.set()
            raise error
        return deliver()

    monkeypatch.setattr(box, "deliver_due", deliver_after_errors)
    loop = NoticeLoop(box, sender)
    loop.start()
    while answers:
        assert was_called.wait(30)
        was_called.clear()
        loop.wake()
    loop.wake()
    assert sent.wait(30)
    loop.stop()


def test_event_without_notices_does_not_wake_the_loop(database, clock):
    loop = NoticeLoop(outbox(database, FakeSender(), clock)[0], ChannelSender())
    loop.heard([(1, SimpleNamespace(row=JOB, kind="updated"))])
    assert not loop._woken.is_set()


def test_channel_test_returns_the_error_immediately(database, clock):
    sender = ChannelSender(AllowList.parse(["json@127.0.0.1"]))
    loop = NoticeLoop(outbox(database, sender, clock)[0], sender)
    with webhook(200, 404) as hook:
        assert loop.test(hook.url()) == ""
        assert loop.test(hook.url()) == "the channel answered 404"
    assert "not an allowed channel" in loop.test("json://192.0.2.1/")
