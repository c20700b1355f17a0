"""The typed client with the real API."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import cast

import pytest

from gpusquad.client import ApiError, Client
from gpusquad.client.logs import LogChunk, LogEnd
from tests.server.live import Live, live
from tests.server.rig import JOB_FILE, Rig


@pytest.fixture
def running(rig: Rig) -> Iterator[Live]:
    with live(rig) as server:
        yield server


@pytest.fixture
def ann(running: Live) -> Iterator[Client]:
    with Client(f"http://127.0.0.1:{running.port}", running.rig.tokens["ann"]) as client:
        yield client


@pytest.fixture
def root(running: Live) -> Iterator[Client]:
    with Client(f"http://127.0.0.1:{running.port}", running.rig.tokens["root"]) as client:
        yield client


def test_job_calls_work(ann: Client) -> None:
    accepted = ann.jobs.submit(JOB_FILE | {"name": "one"}, key="k")
    assert ann.jobs.submit(JOB_FILE | {"name": "one"}, key="k") == accepted
    job = accepted["jobs"][0]["id"]
    assert ann.jobs.get("one")["id"] == job
    assert ann.jobs.what_if(JOB_FILE)["starts_now"]
    assert ann.jobs.find(state=["pending", "held"], limit=None)["items"] == accepted["jobs"]
    assert ann.jobs.why(job)["position"] == 1
    assert ann.jobs.when(job)["run"] is not None
    assert ann.jobs.update(job, {"priority": "high"})["priority"] == "high"
    assert ann.jobs.hold(job)["state"] == "held"
    assert ann.jobs.release(job)["state"] == "pending"
    assert ann.jobs.cancel(job, "enough")["cause"] == "enough"
    assert ann.jobs.resubmit(job)["jobs"][0]["state"] == "pending"
    assert [line["kind"] for line in ann.jobs.story(job)] == ["pending", "held", "pending", "cancelled"]


def test_errors_are_raised_as_api_errors(ann: Client) -> None:
    with pytest.raises(ApiError) as caught:
        ann.jobs.submit({"command": ["true"], "gpu": 1})
    error = caught.value
    assert (error.status, error.code, error.field) == (422, "invalid", "file.gpu")
    assert "gpus" in error.cure
    with pytest.raises(ApiError) as caught:
        ann.policy.set({"mode": "fair"})
    assert caught.value.status == 403


def test_log_and_event_calls_work(ann: Client, running: Live) -> None:
    job = ann.jobs.submit(JOB_FILE)["jobs"][0]["id"]
    running.rig.logs.write(job, 0, 0, "hällo\n".encode() * 1000)
    running.rig.scheduler.move(job, "running")
    assert ann.logs.read(job, tail=1).text == "hällo\n"
    running.rig.scheduler.move(job, "succeeded")
    assert "".join(chunk.text for chunk in ann.logs.read_all(job)) == "hällo\n" * 1000
    messages = list(ann.logs.stream(job))
    assert "".join(chunk.text for chunk in cast(list[LogChunk], messages[:-1])) == "hällo\n" * 1000
    assert messages[-1] == LogEnd("succeeded")
    seen = [event["state"] for event in islice(ann.events.follow(0), 3)]
    assert seen == ["pending", "running", "succeeded"]


def test_node_card_and_policy_calls_work(root: Client) -> None:
    node = root.cluster.nodes()[0]
    card = node["cards"][0]["id"]
    assert root.cluster.summary()["gpus"] == 8
    for call in (
        lambda: root.cluster.drain(node["id"], "dust"),
        lambda: root.cluster.undrain(node["id"]),
        lambda: root.cluster.cordon(card, "hot"),
        lambda: root.cluster.uncordon(card),
        lambda: root.cluster.samples(card, since_s=0.0, every_s=60.0),
        lambda: root.cluster.usage("job", since_s=0.0),
        lambda: root.cluster.queue(None),
        lambda: root.policy.preview({"mode": "fair"}),
        lambda: root.policy.set({"mode": "fair", "note": "x"}),
    ):
        call()
    window = root.windows.add([node["id"]], 1.0, None, "firmware")
    assert root.windows.all() == [window]
    root.windows.remove(window["id"])
    assert root.policy.get()["mode"] == root.policy.revisions()[0]["settings"]["mode"] == "fair"


def test_user_secret_and_notice_calls_work(root: Client, ann: Client) -> None:
    assert root.people.me()["role"] == "admin"
    root.people.set_tenant("new", {"weight": 2.0})
    root.people.add_user("eve", "new", "member")
    made = root.people.create_token(user="eve", label="first", scopes=["read"])
    assert made["token"].startswith("gsq_")
    root.people.revoke_token(made["id"])
    assert {row["action"] for row in root.people.audit()["items"]} >= {"tenant.set", "user.add", "token.add"}
    assert {user["name"] for user in root.people.users()} >= {"eve"}
    assert [tenant["name"] for tenant in ann.people.tenants()] == ["a"]
    ann.secrets.set("KEY", "v")
    assert ann.secrets.names() == [{"name": "KEY"}]
    ann.secrets.remove("KEY")
    rule = ann.notices.add("slack://A/B/C", ["failed"], "chat")
    ann.notices.test({"rule": str(rule["id"])})
    assert ann.notices.outbox("dead") == []
    ann.notices.remove(rule["id"])
    assert ann.notices.rules() == []


def test_health_calls_work(running: Live, ann: Client) -> None:
    assert ann.health.ready().ok
    running.rig.scheduler.is_ready = False
    assert ann.health.ready().reason == "the scheduler is not running"
    assert "properties" in ann.health.job_schema()
