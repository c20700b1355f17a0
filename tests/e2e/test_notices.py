"""Notices of a real service: everybody has an inbox, and a channel that fails gets everything later, in order."""

from __future__ import annotations

import pytest

from bench.running import PATIENCE_S, RunningService
from tests.server.webhook import webhook

CONFIG = """
[server]
public_url = "https://gpus.example.org"
[notify]
channels = ["json@127.0.0.1"]
"""


pytestmark = pytest.mark.slow


def test_new_user_reads_how_the_jobs_ended(make_service) -> None:
    service: RunningService = make_service(config=CONFIG)
    jobs = {
        "good": service.submit(name="good", command="true"),
        "bad": service.submit(name="bad", command="exit 3"),
        "long": service.submit(name="long", command="sleep 600", limit="1s"),
    }
    for job in jobs.values():
        service.wait(job)
    inbox = service.client.inbox.entries()
    assert {(one["title"], one["kind"], one["job"]) for one in inbox["items"]} == {
        ("good has finished", "finished", jobs["good"]),
        ("bad has failed", "failed", jobs["bad"]),
        ("long was stopped at its time limit", "failed", jobs["long"]),
    }
    assert inbox["unread"] == 3
    assert service.client.inbox.read(up_to=inbox["items"][0]["id"])["unread"] == 0
    service.stop()
    service.start().checked()
    again = service.client.inbox.entries()
    assert [(one["id"], one["read"]) for one in again["items"]] == [(one["id"], True) for one in inbox["items"]]


def test_channel_that_was_away_gets_everything_in_order_after_a_restart(make_service) -> None:
    service: RunningService = make_service(config=CONFIG)
    with webhook(503, 503, 200) as hook:
        service.client.notices.add(hook.url(), ["started", "finished"])
        jobs = [service.submit(name=f"job{number}", command="true") for number in range(3)]
        for job in jobs:
            service.wait(job)
        assert hook.arrived.acquire(timeout=PATIENCE_S)  # the first delivery failed
        service.kill()
        service.start().checked()
        while len({one["id"] for one in accepted(hook)}) < 2 * len(jobs):
            assert hook.arrived.acquire(timeout=PATIENCE_S), service.log()
    for job in jobs:
        own = [one for one in accepted(hook) if one["job"]["id"] == job]
        assert [one["event"] for one in own] == ["started", "finished"]
        assert own[1]["link"] == f"https://gpus.example.org/jobs/{job}"
        assert own[1]["times"]["ended_s"] >= own[1]["times"]["started_s"] >= own[1]["times"]["submitted_s"] > 0
    ids = [one["event_id"] for one in accepted(hook)]
    assert ids == sorted(ids)


def accepted(hook) -> list[dict]:
    return [one for one, status in zip(hook.received, hook.answered, strict=False) if status == 200]
