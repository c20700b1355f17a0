"""What a caller may not do to the service: too much, too fast, too slowly, or under a false name."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gpusquad.server.app import PREFIX
from gpusquad.server.limits import ApiLimits, Buckets
from tests.server.rig import JOB_FILE, Rig, error_of

JOBS = f"{PREFIX}/jobs"


def test_bucket_refills_with_time() -> None:
    now_s = 0.0
    buckets = Buckets(10.0, 3, lambda: now_s)
    assert [buckets.take("a") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert buckets.take("a") == pytest.approx(0.1)
    assert buckets.take("b") == 0.0
    now_s = 0.1
    assert buckets.take("a") == 0.0
    assert buckets.take("a") > 0.0
    now_s = 100.0
    assert [buckets.take("a") for _ in range(4)][:3] == [0.0, 0.0, 0.0]


def test_buckets_do_not_pile_up() -> None:
    buckets = Buckets(1.0, 1, lambda: 0.0, most_keys=10)
    for key in range(1000):
        buckets.take(str(key))
    assert len(buckets._left) == 10


def test_who_asks_too_fast_is_told_when_to_come_back(make_rig: Callable[..., Rig]) -> None:
    now_s = 0.0
    rig = make_rig(limits=ApiLimits(requests_per_s=0.5, requests_burst=5), monotonic_s=lambda: now_s)
    statuses = [rig.get("me").status_code for _ in range(6)]
    assert statuses == [200] * 5 + [429]
    answer = rig.get("me")
    assert (answer.headers["Retry-After"], error_of(answer)["code"]) == ("2", "rate_limited")
    assert rig.get("me", "bob").status_code == 200
    now_s = 2.0
    assert rig.get("me").status_code == 200


def test_strangers_are_slowed_down_without_a_query(make_rig: Callable[..., Rig], monkeypatch) -> None:
    rig = make_rig(limits=ApiLimits(unknown_per_s=0.001, unknown_burst=4), monotonic_s=lambda: 0.0)
    assert rig.get("me").status_code == 200
    bad = "gsq_" + "a" * 52
    statuses = [rig.get("me", token=bad).status_code for _ in range(4)]
    assert statuses[-1] == 429
    monkeypatch.setattr(rig.auth, "identify", lambda token: pytest.fail("asked the store"))
    assert rig.get("me", token=bad).status_code == 429
    assert rig.get("me").status_code == 200, "who is known already is not held up by strangers at the same address"


def test_a_burst_of_submissions_passes(rig: Rig) -> None:
    assert {rig.post("jobs", json={"file": JOB_FILE}).status_code for _ in range(300)} == {201}


# -- bodies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_announced", [True, False])
def test_large_bodies_are_refused(rig: Rig, is_announced: bool) -> None:
    size = rig.limits.body_bytes + 1

    def parts():
        for _ in range(size // 1000 + 1):
            yield b"x" * 1000

    content: Any = b"x" * size if is_announced else parts()
    answer = rig.post("jobs", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert error_of(answer)["code"] == "too_large"


def test_reading_stops_at_the_limit(rig: Rig) -> None:
    read = 0

    async def endless() -> dict[str, Any]:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"x" * 100_000, "more_body": True}

    status, _ = asyncio.run(_raw(rig, endless, {"transfer-encoding": "chunked"}))
    assert status == 413
    assert read <= rig.limits.body_bytes // 100_000 + 1


def test_strangers_bodies_are_not_read(rig: Rig) -> None:
    async def never() -> dict[str, Any]:
        pytest.fail("read the body of somebody unknown")

    status, _ = asyncio.run(_raw(rig, never, {"content-length": "10"}, token="gsq_" + "b" * 52))
    assert status == 401


def test_slow_bodies_are_given_up(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(limits=ApiLimits(body_timeout_s=0.05))

    async def stuck() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    status, headers = asyncio.run(_raw(rig, stuck, {"content-length": "10"}))
    assert status == 408
    assert headers["connection"] == "close"


# -- names and headers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("localhost", True), ("LOCALHOST:7070", True), ("127.0.0.1:7070", True), ("[::1]:7070", True),
        ("gpu.lab", True), ("gpu.lab.:80", True), ("evil.example", False), ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False), ("", False), ("[::1", False), ("localhost@evil.example", False),
    ],
)  # fmt: skip
def test_only_our_names(make_rig: Callable[..., Rig], host: str, is_ours: bool) -> None:
    rig = make_rig(limits=ApiLimits(hosts=("gpu.lab",)))
    for path in ("me", "/healthz", "/nothing"):
        answer = rig.get(path, headers={"Host": host})
        assert (answer.status_code != 403) == is_ours
        if not is_ours:
            assert error_of(answer)["field"] == "Host"


def test_headers_of_every_answer(shared_rig: Rig) -> None:
    for path in ("me", "nothing", "/healthz", "jobs?x=1"):
        headers = shared_rig.get(path).headers
        assert headers["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers.get("Cache-Control") == (None if path.startswith("/") else "no-store")


# -- long answers --------------------------------------------------------------------------------------------------


def test_slow_answers_are_few_and_the_rest_come_back_later(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(limits=ApiLimits(slow_at_once=2, slow_waiting=1))
    job = rig.submit()["id"]
    rig.scheduler.gate = threading.Event()
    with rig.client, ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(rig.get, f"jobs/{job}/why") for _ in range(6)]
        refused = [one for one in asked if _status_once_done(one, asked) == 503]
        assert rig.get("me").status_code == 200, "quick requests do not wait behind slow ones"
        rig.scheduler.gate.set()
        statuses = sorted(one.result(30).status_code for one in asked)
    assert statuses == [200] * 3 + [503] * 3
    assert all(one.result().headers["Retry-After"] == "2" for one in refused)


def _status_once_done(one: Any, asked: list[Any]) -> int | None:
    """Waits until all that can end without the gate have ended."""
    pending = threading.Event()
    while sum(other.done() for other in asked) < 3:
        pending.wait(0.01)
    return one.result().status_code if one.done() else None


async def _raw(rig: Rig, receive: Callable[[], Any], headers: dict[str, str], token: str = "") -> tuple[int, dict]:
    """One request straight into the application."""
    sent: list[dict[str, Any]] = []
    told = {
        "host": "localhost",
        "authorization": f"Bearer {token or rig.tokens['ann']}",
        "content-type": "application/json",
    }
    scope = {
        "type": "http", "method": "POST", "path": JOBS, "raw_path": JOBS.encode(), "query_string": b"", "root_path": "",
        "scheme": "http", "http_version": "1.1", "client": ("127.0.0.1", 1), "server": ("localhost", 80),
        "headers": [(name.encode(), value.encode()) for name, value in (told | headers).items()],
    }  # fmt: skip

    async def send(message: Any) -> None:
        sent.append(message)

    await rig.app(scope, receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    return start["status"], {name.decode().lower(): value.decode() for name, value in start["headers"]}
