"""Limits of the API: request rates, body sizes, timeouts, host names and slow answers."""

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


def test_number_of_buckets_is_bounded() -> None:
    buckets = Buckets(1.0, 1, lambda: 0.0, most_keys=10)
    for key in range(1000):
        buckets.take(str(key))
    assert len(buckets._left) == 10


def test_fast_caller_gets_429_with_retry_after(make_rig: Callable[..., Rig]) -> None:
    now_s = 0.0
    rig = make_rig(limits=ApiLimits(requests_per_s=0.5, requests_burst=5), monotonic_s=lambda: now_s)
    statuses = [rig.get("me").status_code for _ in range(6)]
    assert statuses == [200] * 5 + [429]
    answer = rig.get("me")
    assert (answer.headers["Retry-After"], error_of(answer)["code"]) == ("2", "rate_limited")
    assert rig.get("me", "bob").status_code == 200
    now_s = 2.0
    assert rig.get("me").status_code == 200


def test_unknown_tokens_are_rate_limited_without_a_query(make_rig: Callable[..., Rig], monkeypatch) -> None:
    rig = make_rig(limits=ApiLimits(unknown_per_s=0.001, unknown_burst=4), monotonic_s=lambda: 0.0)
    assert rig.get("me").status_code == 200
    bad = "gsq_" + "a" * 52
    statuses = [rig.get("me", token=bad).status_code for _ in range(4)]
    assert statuses[-1] == 429
    monkeypatch.setattr(rig.auth, "identify", lambda token: pytest.fail("queried the store"))
    assert rig.get("me", token=bad).status_code == 429
    assert rig.get("me").status_code == 200, "known callers are not limited by unknown ones at the same address"


def test_burst_of_submissions_is_accepted(rig: Rig) -> None:
    assert {rig.post("jobs", json={"file": JOB_FILE}).status_code for _ in range(300)} == {201}


# -- bodies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_announced", [True, False])
def test_too_large_body_is_refused(rig: Rig, is_announced: bool) -> None:
    size = rig.limits.body_bytes + 1

    def parts():
        for _ in range(size // 1000 + 1):
            yield b"x" * 1000

    content: Any = b"x" * size if is_announced else parts()
    answer = rig.post("jobs", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert error_of(answer)["code"] == "too_large"


def test_body_is_read_only_up_to_the_limit(rig: Rig) -> None:
    read = 0

    async def endless() -> dict[str, Any]:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"x" * 100_000, "more_body": True}

    status, _ = asyncio.run(_raw(rig, endless, {"transfer-encoding": "chunked"}))
    assert status == 413
    assert read <= rig.limits.body_bytes // 100_000 + 1


def test_body_of_an_unknown_caller_is_not_read(rig: Rig) -> None:
    async def never() -> dict[str, Any]:
        pytest.fail("read the body of an unknown caller")

    status, _ = asyncio.run(_raw(rig, never, {"content-length": "10"}, token="gsq_" + "b" * 52))
    assert status == 401


def test_slow_body_times_out(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(limits=ApiLimits(body_timeout_s=0.05))

    async def stuck() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    status, headers = asyncio.run(_raw(rig, stuck, {"content-length": "10"}))
    assert status == 408
    assert headers["connection"] == "close"


# -- names and headers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "accepted"),
    [
        ("localhost", True), ("LOCALHOST:7070", True), ("127.0.0.1:7070", True), ("[::1]:7070", True),
        ("gpu.lab", True), ("gpu.lab.:80", True), ("evil.example", False), ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False), ("", False), ("[::1", False), ("localhost@evil.example", False),
    ],
)  # fmt: skip
def test_only_own_host_names_are_accepted(make_rig: Callable[..., Rig], host: str, accepted: bool) -> None:
    rig = make_rig(limits=ApiLimits(hosts=("gpu.lab",)))
    for path in ("me", "/healthz", "/nothing"):
        answer = rig.get(path, headers={"Host": host})
        assert (answer.status_code != 403) == accepted
        if not accepted:
            assert error_of(answer)["field"] == "Host"


def test_every_answer_has_the_security_headers(shared_rig: Rig) -> None:
    for path in ("me", "nothing", "/healthz", "jobs?x=1"):
        headers = shared_rig.get(path).headers
        assert headers["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers.get("Cache-Control") == (None if path.startswith("/") else "no-store")


# -- long answers --------------------------------------------------------------------------------------------------


def test_excess_slow_requests_get_503_with_retry_after(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(limits=ApiLimits(slow_at_once=2, slow_waiting=1))
    job = rig.submit()["id"]
    rig.scheduler.gate = threading.Event()
    with rig.client, ThreadPoolExecutor(8) as pool:
        requests = [pool.submit(rig.get, f"jobs/{job}/why") for _ in range(6)]
        refused = [request for request in requests if _status_once_done(request, requests) == 503]
        assert rig.get("me").status_code == 200, "quick requests do not wait behind slow ones"
        rig.scheduler.gate.set()
        statuses = sorted(request.result(30).status_code for request in requests)
    assert statuses == [200] * 3 + [503] * 3
    assert all(request.result().headers["Retry-After"] == "2" for request in refused)


def _status_once_done(request: Any, requests: list[Any]) -> int | None:
    """Wait until three requests are done without the gate. Return this one's status if it is done."""
    pending = threading.Event()
    while sum(other.done() for other in requests) < 3:
        pending.wait(0.01)
    return request.result().status_code if request.done() else None


async def _raw(rig: Rig, receive: Callable[[], Any], headers: dict[str, str], token: str = "") -> tuple[int, dict]:
    """Send one request directly to the application."""
    sent: list[dict[str, Any]] = []
    default_headers = {
        "host": "localhost",
        "authorization": f"Bearer {token or rig.tokens['ann']}",
        "content-type": "application/json",
    }
    scope = {
        "type": "http", "method": "POST", "path": JOBS, "raw_path": JOBS.encode(), "query_string": b"", "root_path": "",
        "scheme": "http", "http_version": "1.1", "client": ("127.0.0.1", 1), "server": ("localhost", 80),
        "headers": [(name.encode(), value.encode()) for name, value in (default_headers | headers).items()],
    }  # fmt: skip

    async def send(message: Any) -> None:
        sent.append(message)

    await rig.app(scope, receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    return start["status"], {name.decode().lower(): value.decode() for name, value in start["headers"]}
