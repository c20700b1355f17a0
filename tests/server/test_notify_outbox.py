"""Outbox and loop of notices: sending, order, retries and digests."""

import threading
from types import SimpleNamespace

import pytest

from gpusquad.server.notify.channels import AllowList, SendFailed
from gpusquad.server.notify.feed import NoticeFeed
from gpusquad.server.notify.loop import NoticeLoop
from gpusquad.server.notify.messages import write
from gpusquad.server.notify.outbox import DIGEST_FROM, Backoff, Outbox
from gpusquad.server.notify.sender import ChannelSender
from gpusquad.store import events, jobs, notices, people
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

    def send(self, url, message):
        self.attempts.append((url, message.title))
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.sent.append((url, message.title, message.body))

    def is_structured(self, url):
        return url.startswith("json")


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


def fail_job(database, clock, job=JOB):
    """Write the notice of a failed job for every rule, as the feed does."""
    message = write("failed", job, FAILED)
    with database.write() as c:
        rules = notices.rules(c)
        notices.add_all(c, [
            notices.new(rule.id, job.id, "failed", message.title, message.body, clock(), {"id": job.id})
            for rule in rules
        ])  # fmt: skip
    return len(rules)


def rows(database, state=None):
    with database.read() as c:
        return list(reversed(notices.outbox(c, state).items))


# -- sending


def test_notice_is_retried_when_the_webhook_fails(database, clock):
    with webhook(500, 503, 200) as hook:
        add_rule(database, hook.url("/s3cret"))
        box, counts = outbox(database, ChannelSender(AllowList.parse(["json@127.0.0.1"])), clock)
        fail_job(database, clock)
        assert box.deliver_due() == 1
        (row,) = rows(database)
        assert (row.state, row.tries, row.error) == ("waiting", 1, "the channel answered 500")
        assert row.next_us == clock() + 1 * S == box.next_due_us()
        assert box.deliver_due() == 0
        clock.at_us = row.next_us
        assert box.deliver_due() == 1
        clock.at_us += 2 * S
        assert box.deliver_due() == 1
    assert len(hook.received) == 3
    assert hook.received[2]["title"] == "train has failed"
    assert "exit code 1" in hook.received[2]["message"]
    assert [(row.state, row.error) for row in rows(database)] == [("sent", "")]
    assert counts == ["retried", "retried", "sent"]
    assert box.next_due_us() is None


def test_retry_delays_double_up_to_the_maximum(database, clock):
    add_rule(database)
    backoff = Backoff(10, 100, give_up_s=800)
    box, _ = outbox(database, FakeSender(*[SendFailed("no")] * 99), clock, backoff=backoff)
    fail_job(database, clock)
    delays_s = []
    while box.deliver_due():
        (row,) = rows(database)
        delays_s.append((row.next_us - clock()) // S)
        clock.at_us = row.next_us
    assert delays_s[:8] == [10, 20, 40, 80, 100, 100, 100, 100]
    assert row.state == "dead"
    assert clock() - row.created_us > 800 * S


def test_notice_that_the_channel_rejects_does_not_block_the_next(database, clock):
    add_rule(database, "json://a")
    sender = FakeSender(*[SendFailed("the channel answered 422", rejected=True)] * 3)
    box, _ = outbox(database, sender, clock, backoff=Backoff(rejections=3))
    for name in ("bad", "good"):
        fail_job(database, clock, JobRow(name, name, "vision", "ann"))
    while (due_us := box.next_due_us()) is not None:
        clock.at_us = max(clock.at_us, due_us)
        box.deliver_due()
    assert [title for _, title, _ in sender.sent] == ["good has failed"]
    assert [row.job_id for row in rows(database, "dead")] == ["bad"]


def test_dead_notice_can_be_retried(database, clock):
    add_rule(database)
    sender = FakeSender(SendFailed("gone", permanent=True))
    box, counts = outbox(database, sender, clock)
    fail_job(database, clock)
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
    fail_job(database, clock)
    clock.at_us += 61 * S
    box.deliver_due()
    assert [row.state for row in rows(database)] == ["dead"]


def test_broken_channel_does_not_delay_others(database, clock):
    add_rule(database, "slack://broken")
    add_rule(database, "slack://works")

    class Sender(FakeSender):
        def send(self, url, message):
            if "broken" in url:
                raise ValueError(url)
            super().send(url, message)

    sender = Sender()
    box, counts = outbox(database, sender, clock)
    fail_job(database, clock)
    assert box.deliver_due() == 2
    assert [url for url, _, _ in sender.sent] == ["slack://works"]
    assert [row.error for row in rows(database, "waiting")] == ["failed with ValueError"]
    assert sorted(counts) == ["retried", "sent"]


def test_notices_of_a_channel_stay_in_order_after_a_failure(database, clock):
    add_rule(database)
    sender = FakeSender(SendFailed("no"))
    box, _ = outbox(database, sender, clock)
    for name in ("a", "b"):
        fail_job(database, clock, JobRow(name, name, "vision", "ann"))
    box.deliver_due()
    assert [title for _, title in sender.attempts] == ["a has failed"]
    clock.at_us += 1 * S
    box.deliver_due()
    assert [title for _, title, _ in sender.sent] == ["a has failed", "b has failed"]


def test_many_notices_are_sent_as_one_digest(database, clock):
    add_rule(database)
    sender = FakeSender(SendFailed("no"))
    box, _ = outbox(database, sender, clock)
    for number in range(DIGEST_FROM):
        fail_job(database, clock, JobRow(f"j{number}", f"j{number}", "vision", "ann"))
    box.deliver_due()
    clock.at_us += 1 * S
    box.deliver_due()
    ((_, title, body),) = sender.sent
    assert title == f"{DIGEST_FROM} notices"
    assert body.splitlines()[:2] == ["j0 has failed", "j1 has failed"]
    assert {row.state for row in rows(database)} == {"sent"}


def test_channel_with_data_gets_every_notice_by_itself(database, clock):
    add_rule(database, "json://a")
    sender = FakeSender()
    box, _ = outbox(database, sender, clock)
    for number in range(DIGEST_FROM + 1):
        fail_job(database, clock, JobRow(f"j{number}", f"j{number}", "vision", "ann"))
    box.deliver_due()
    assert [title for _, title, _ in sender.sent] == [f"j{number} has failed" for number in range(DIGEST_FROM + 1)]


def test_two_rules_of_a_user_for_one_channel_share_its_queue(database, clock):
    first, second = add_rule(database, "json://a"), add_rule(database, "json://a")
    with database.write() as c:
        for rule, title in ((second, "started"), (first, "failed")):
            notices.add_all(c, [notices.new(rule, JOB.id, "x", title, "", clock())])
    sender = FakeSender(SendFailed("no"))
    box, _ = outbox(database, sender, clock)
    box.deliver_due()
    assert box.deliver_due() == 0, "the later notice waits for the earlier one, although its rule did not fail"
    clock.at_us += 1 * S
    box.deliver_due()
    assert [title for _, title, _ in sender.sent] == ["started", "failed"]


def test_notices_of_a_removed_rule_are_not_sent(database, clock):
    rule = add_rule(database)
    box, _ = outbox(database, FakeSender(), clock)
    fail_job(database, clock)
    with database.write() as c:
        notices.remove_rule(c, rule)
    assert box.deliver_due() == 0
    assert box.next_due_us() is None


def test_notices_are_sent_outside_of_transactions(database, clock):
    add_rule(database)

    class Sender(FakeSender):
        def send(self, url, message):
            with database.write():  # would deadlock if the outbox held the lock
                super().send(url, message)

    sender = Sender()
    box, _ = outbox(database, sender, clock)
    fail_job(database, clock)
    box.deliver_due()
    assert len(sender.sent) == 1


def test_notice_is_sent_once_when_the_store_fails_after_sending(database, clock, monkeypatch):
    add_rule(database)
    sender = FakeSender()
    box, counts = outbox(database, sender, clock)
    fail_job(database, clock)
    with monkeypatch.context() as broken:
        broken.setattr(notices, "sent_all", lambda *_: (_ for _ in ()).throw(StoreUnavailable("disk full")))
        with pytest.raises(StoreUnavailable):
            box.deliver_due()
        with pytest.raises(StoreUnavailable):
            box.deliver_due()
    assert box.deliver_due() == 0
    assert len(sender.sent) == 1
    assert counts == ["sent"]
    assert [row.state for row in rows(database)] == ["sent"]


def test_delivered_notice_is_recorded_while_the_next_one_hangs(database, clock):
    add_rule(database, "json://a")
    recorded = threading.Event()
    while_it_hangs = []

    class Sender(FakeSender):
        def send(self, url, message):
            if self.sent:
                recorded.wait(10)
                while_it_hangs.append([row.state for row in rows(database)])
            super().send(url, message)

    box = Outbox(database, Sender(), clock, count=lambda _: recorded.set())
    for name in ("queued", "started"):
        fail_job(database, clock, JobRow(name, name, "vision", "ann"))
    assert box.deliver_due() == 2
    assert while_it_hangs == [["sent", "waiting"]]


def test_burst_of_notices_is_recorded_together(database, clock, monkeypatch):
    add_rule(database, "json://a")
    box, counts = outbox(database, FakeSender(), clock)
    for number in range(50):
        fail_job(database, clock, JobRow(str(number), str(number), "vision", "ann"))
    monkeypatch.setattr("gpusquad.server.notify.outbox.SAVE_EVERY_S", 60.0)
    recorded = []
    sent_all = notices.sent_all
    monkeypatch.setattr(notices, "sent_all", lambda c, ids: (recorded.append(len(ids)), sent_all(c, ids)))
    assert box.deliver_due() == 50
    assert recorded == [50]
    assert counts == ["sent"] * 50


# -- thread


def loop_of(box, sender):
    return NoticeLoop(box, sender, NoticeFeed(box.database))


def test_loop_sends_when_woken_and_stops_on_request(database, clock):
    with webhook() as hook:
        add_rule(database, hook.url())
        sender = ChannelSender(AllowList.parse(["json@127.0.0.1"]))
        box, _ = outbox(database, sender, clock)
        loop = loop_of(box, sender)
        loop.start()
        for _ in range(2):
            fail_job(database, clock)
            loop.wake()
            assert hook.arrived.acquire(timeout=30)
        loop.stop()
        assert not loop._thread.is_alive()
    assert [row.state for row in rows(database)] == ["sent", "sent"]


def test_loop_sends_what_the_feed_writes(database, clock):
    with webhook() as hook:
        add_rule(database, hook.url())
        sender = ChannelSender(AllowList.parse(["json@127.0.0.1"]))
        box, _ = outbox(database, sender, clock)
        feed = NoticeFeed(database)
        loop = NoticeLoop(box, sender, feed)
        loop.start()
        with database.write() as c:
            jobs.insert(c, [JOB])
            events.append(c, JOB.id, clock(), "failed", "failed", 0, "exit code 1")
        feed.wake()
        assert hook.arrived.acquire(timeout=30)
        loop.stop()
    assert hook.received[0]["event"] == "failed"


def test_loop_survives_errors_of_the_store(database, clock, monkeypatch):
    add_rule(database)
    sent = threading.Event()
    sender = SimpleNamespace(send=lambda *_: sent.set(), is_structured=lambda _: False)
    box, _ = outbox(database, sender, clock)
    fail_job(database, clock)
    was_called, deliver = threading.Event(), box.deliver_due
    answers = [StoreUnavailable("away"), ZeroDivisionError()]

    def deliver_after_errors():
        if answers:
            error = answers.pop(0)
            was_called.set()
            raise error
        return deliver()

    monkeypatch.setattr(box, "deliver_due", deliver_after_errors)
    loop = loop_of(box, sender)
    loop.start()
    while answers:
        assert was_called.wait(30)
        was_called.clear()
        loop.wake()
    loop.wake()
    assert sent.wait(30)
    loop.stop()


def test_channel_test_returns_the_error_immediately(database, clock):
    sender = ChannelSender(AllowList.parse(["json@127.0.0.1"]))
    loop = loop_of(outbox(database, sender, clock)[0], sender)
    with webhook(200, 404) as hook:
        assert loop.test(hook.url()) == ""
        assert loop.test(hook.url()) == "the channel answered 404"
    assert hook.received[0]["event"] == "test"
    assert "not an allowed channel" in loop.test("json://192.0.2.1/")
