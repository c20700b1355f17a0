"""A channel that fails at random: every notice arrives, in order for each job, once as far as the channel says so."""

import random
from collections import defaultdict

import pytest

from gpusquad.server.notify.channels import AllowList
from gpusquad.server.notify.feed import NoticeFeed
from gpusquad.server.notify.outbox import Outbox
from gpusquad.server.notify.sender import ChannelSender
from gpusquad.store import events, jobs, notices, people
from gpusquad.store.database import Database
from gpusquad.store.jobs import JobRow
from tests.server.webhook import webhook

S = 1_000_000
MINUTE_US = 60 * S
JOBS = 12
KINDS = ["queued", "started", "hung", "overrun", "finished", "failed", "retried", "lost"]
STORY = [("pending", "pending"), ("running", "running"), ("overrun", "running"), ("lost", "lost"),
         ("running", "running"), ("succeeded", "succeeded")]  # fmt: skip


class Died(BaseException):
    """The service was killed."""


class Clock:
    at_us = 1_000 * S

    def __call__(self):
        return self.at_us


def live(database, clock, rng):
    """Stories of the jobs, mixed over a minute; after each event the time and the job."""
    with database.write() as c:
        jobs.insert(c, [JobRow(f"job{n}", f"job{n}", "vision", "ann", spec={"command": ["x"]}) for n in range(JOBS)])
    left = {f"job{n}": list(STORY) for n in range(JOBS)}
    total = JOBS * len(STORY)
    while left:
        job_id = rng.choice(sorted(left))
        kind, state = left[job_id].pop(0)
        if not left[job_id]:
            del left[job_id]
        clock.at_us += MINUTE_US // total
        with database.write() as c:
            events.append(c, job_id, clock(), kind, state, 0, "why")
        yield


@pytest.mark.parametrize("seed", [1, 2])
def test_every_notice_arrives_in_order_when_a_channel_fails_for_a_minute(tmp_path, seed, monkeypatch):
    rng, clock = random.Random(seed), Clock()
    database = Database(tmp_path / "gpusquad.db")
    database.migrate()
    statuses = [rng.choice([200, 200, 500, 503, 429, 404]) for _ in range(60)]
    with webhook(*statuses, 200) as hook:
        with database.write() as c:
            people.put_tenant(c, people.TenantRow("vision"))
            people.put_user(c, people.UserRow("ann", "vision"))
            notices.add_rule(c, "ann", KINDS, hook.url(), "", 0)
        deaths = _dies_after_sending(monkeypatch, rng)
        feed, box = _service(database, clock)
        feed.step()
        for _ in live(database, clock, rng):
            if rng.random() < 0.1:
                feed, box = _service(database, clock)  # a restart
            feed.step()
            try:
                box.deliver_due()
            except Died:
                feed, box = _service(database, clock)
        while (due_us := box.next_due_us()) is not None:
            clock.at_us = max(clock.at_us, due_us)
            try:
                box.deliver_due()
            except Died:
                feed, box = _service(database, clock)
        _check(hook, deaths)
    database.close()


def _service(database, clock):
    return NoticeFeed(database), Outbox(database, ChannelSender(AllowList.parse(["json@127.0.0.1"])), clock)


def _dies_after_sending(monkeypatch, rng):
    """Between a delivery and its record the service dies now and then: the only way to a second delivery."""
    real, deaths = notices.sent_all, []

    def sent_all(c, ids):
        if ids and rng.random() < 0.1:
            deaths.append(list(ids))
            raise Died
        real(c, ids)

    monkeypatch.setattr(notices, "sent_all", sent_all)
    return deaths


def _check(hook, deaths):
    accepted = [one for one, status in zip(hook.received, hook.answered, strict=True) if status == 200]
    assert len(accepted) < len(hook.received), "the channel failed"
    assert deaths, "the service died"
    first: dict[str, dict] = {}
    for one in accepted:
        first.setdefault(one["id"], one)
    assert len(first) == JOBS * len(STORY), "every notice arrived"
    assert len(accepted) - len(first) <= sum(map(len, deaths)), (
        "once, except where the service died before it could note it"
    )
    by_job = defaultdict(list)
    for one in first.values():
        by_job[one["job"]["id"]].append(one)
    for job_id, own in by_job.items():
        numbers = [one["event_id"] for one in own]
        assert numbers == sorted(numbers), "in order"
        assert [one["event"] for one in own] == ["queued", "started", "overrun", "lost", "started", "finished"]
        assert all(one["job"]["name"] == job_id and one["reason"]["text"] == "why" for one in own)
        assert all(one["version"] == 1 and one["message"] and one["times"]["at_s"] > 0 for one in own)
