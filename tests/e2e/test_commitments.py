"""A job that needs all cards starts in its turn, although later jobs run much longer than their users said."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from bench.running import RunningService

LIARS = 6
TENANTS = ("first", "second", "third")
LATE_S = 15.0
"""Time for the passes of the service on a busy machine."""


def overstayed(service: RunningService, job: str, timeout_s: float = 30.0) -> str:
    """Wait until the job is delayed by one that has outlived its time. Return the message."""
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        for reason in service.client.jobs.why(job)["reasons"]:
            if reason["code"] == "overstayed":
                return reason["message"]
        time.sleep(0.1)
    raise TimeoutError("no job has outlived its time")


KINDS = {
    "gangs": {"gpus": 1, "count": 2},
    "elastic gangs": {"gpus": 1, "count": 2, "min": 1, "max": 2},
    "single tasks": {"gpus": 2},
    "shares": {"share": {"memory": "60%", "sm": "50%"}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_head_starts_after_one_liar_in_a_new_service(service: RunningService, tmp_path: Path, kind: str) -> None:
    """Nothing is set: the default mode, the default predictor, no history."""
    check_head_is_delayed_once(service, tmp_path, KINDS[kind])


@pytest.mark.parametrize("mode", ["fifo", "fair", "predictive-fifo"])
def test_head_starts_after_one_liar_in_modes_of_request_order(service: RunningService, tmp_path: Path, mode: str):
    service.client.policy.set({"mode": mode})
    check_head_is_delayed_once(service, tmp_path, KINDS["gangs"])


def check_head_is_delayed_once(service: RunningService, folder: Path, kind: dict[str, Any]) -> None:
    """A job of six cards, one of eight, and liars of several tenants. The first liar does not end by itself."""
    for tenant in TENANTS:
        service.client.people.set_tenant(tenant, {})
    go = folder / "go"
    until_go = ["sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done"]
    ahead = service.submit(name="ahead", gpus=6, estimate="3s", command=["sleep", "3"])
    service.wait(ahead, "running")
    head = service.submit(name="head", gpus=8, estimate="1s", command=["true"])
    first = service.submit(name="liar", estimate="1s", command=until_go, tenant=TENANTS[0], **kind)
    service.wait(first, "running")
    service.wait(ahead)
    assert first in overstayed(service, head)
    liars = [
        service.submit(name="liar", estimate="1s", command=["sleep", "60"], tenant=TENANTS[i % len(TENANTS)], **kind)
        for i in range(LIARS)
    ]
    states = [service.client.jobs.get(job)["state"] for job in (head, *liars)]
    assert states == ["pending"] * (1 + LIARS)
    released_s = time.time()
    go.touch()
    row = service.wait(head)
    assert row["state"] == "succeeded"
    assert row["started_s"] - released_s < LATE_S
    for job in liars:
        service.client.jobs.cancel(job)


def test_small_jobs_use_idle_cards_beside_a_head_if_nothing_is_known(service: RunningService, tmp_path: Path) -> None:
    """A new service, and nobody gives an estimate."""
    go = tmp_path / "go"
    ahead = service.submit(name="ahead", gpus=6, command=["sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done"])
    service.wait(ahead, "running")
    head = service.submit(name="head", gpus=8, command=["true"])
    for _ in range(3):
        small = service.submit(name="small", gpus=2, command=["sleep", "0.5"])
        assert service.wait(small)["state"] == "succeeded"
        assert service.client.jobs.get(head)["state"] == "pending"
    released_s = time.time()
    go.touch()
    row = service.wait(head)
    assert row["started_s"] - released_s < LATE_S
