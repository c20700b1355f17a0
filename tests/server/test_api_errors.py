"""Errors of the API: one form, and no internal details."""

from __future__ import annotations

import logging

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.model.reasons import Reason, ReasonCode
from gpusquad.server.errors import Conflict, Forbidden, JobRefused, NotFound, Unavailable
from gpusquad.server.services.runtime.loop import ServiceStopping
from gpusquad.store.errors import StoreConflict, StoreUnavailable
from tests.server.rig import JOB_FILE, Rig, error_of

SECRET = "hunter2"
RAISED = [
    (Invalid("x.y", "is wrong", "fix it"), 422, "invalid"),
    (NotFound("gone"), 404, "not_found"),
    (Conflict("in the way"), 409, "conflict"),
    (Forbidden("no"), 403, "forbidden"),
    (JobRefused(Reason(ReasonCode.NEVER_FITS, "too large")), 422, "never_fits"),
    (JobRefused(Reason(ReasonCode.TENANT_LIMIT, "full")), 409, "tenant_limit"),
    (Unavailable("later", 7.2), 503, "unavailable"),
    (StoreUnavailable(f"disk full: {SECRET}"), 503, "unavailable"),
    (StoreConflict(SECRET), 409, "conflict"),
    (ServiceStopping("stops"), 503, "unavailable"),
    (TimeoutError(), 503, "unavailable"),
    (RuntimeError(SECRET), 500, "internal"),
    (KeyError(SECRET), 500, "internal"),
    (RecursionError(SECRET), 500, "internal"),
]


@pytest.mark.parametrize(("error", "status", "code"), RAISED, ids=lambda value: getattr(type(value), "__name__", ""))
@pytest.mark.parametrize("path", ["cluster", "POST jobs"])
def test_every_exception_has_its_status_and_code(
    shared_rig: Rig, error: Exception, status: int, code: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    shared_rig.scheduler.fail = error
    try:
        with caplog.at_level(logging.WARNING):
            is_post = path.startswith("POST")
            answer = shared_rig.post("jobs", json={"file": JOB_FILE}) if is_post else shared_rig.get(path)
    finally:
        shared_rig.scheduler.fail = None
    assert answer.status_code == status
    error_body = error_of(answer)
    assert error_body["code"] == code
    assert SECRET not in answer.text
    assert "Traceback" not in answer.text
    assert ("Retry-After" in answer.headers) == (status == 503)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    if status == 500:
        assert error_body["id"] in error_body["message"]
        assert any(error_body["id"] in record.getMessage() for record in caplog.records)


def test_retry_after_is_in_whole_seconds(shared_rig: Rig) -> None:
    shared_rig.scheduler.fail = Unavailable("later", 7.2)
    try:
        assert shared_rig.get("cluster").headers["Retry-After"] == "8"
    finally:
        shared_rig.scheduler.fail = None


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "nothing/here", 404),
        ("GET", "jobs/", 404),
        ("DELETE", "jobs", 405),
        ("PUT", "jobs/x", 405),
        ("HEAD", "/healthz", 405),
        ("OPTIONS", "jobs", 405),
        ("GET", "/nothing", 404),
    ],
)
def test_unknown_paths_and_methods_are_refused(shared_rig: Rig, method: str, path: str, status: int) -> None:
    answer = shared_rig.call(method, path)
    assert answer.status_code == status
    if method != "HEAD":
        error_of(answer)
    if status == 405:
        assert answer.headers["Allow"]
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[" * 200_000, b'{"file": ' * 50_000, b"\xff\xfe", b'{"file": "\\ud800"}', b"NaN", b"",
        b'{"file": {"command": ["true"], "gpus": 1, "name": "\\ud800"}}',
        b'{"file": {"command": ["true\\u0000"], "gpus": 1}}',
        b'{"file": {"command": ["true"], "gpus": NaN}}',
        b'{"file": {"command": ["true"], "gpus": 1e400}}',
        b'{"file": {"command": ["true"], "gpus": ' + b"9" * 5000 + b"}}",
        b'{"file": {"command": ["true"], "gpus": 1}, "params": {"a": "\\ud800"}}',
    ],
    ids=range(13),
)  # fmt: skip
def test_malformed_bodies_are_refused(shared_rig: Rig, body: bytes) -> None:
    answer = shared_rig.post("jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    error_of(answer)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_body_with_another_content_type_is_refused(shared_rig: Rig, kind: str) -> None:
    """A browser sends such bodies cross-site without a preflight request, so they are never read as JSON."""
    content = b'{"file": {"command": ["true"], "gpus": 1}}'
    answer = shared_rig.post("jobs", content=content, headers={"Content-Type": kind} if kind else {})
    assert answer.status_code == 422


def test_readyz_fails_when_the_scheduler_is_not_running(rig: Rig) -> None:
    assert rig.get("/readyz", None).json() == {"ok": True, "reason": ""}
    rig.scheduler.is_ready = False
    answer = rig.get("/readyz", None)
    assert answer.status_code == 503
    assert error_of(answer)["message"] == "the scheduler is not running"
    assert rig.get("/healthz", None).status_code == 200


def test_error_does_not_repeat_the_sent_values(rig: Rig) -> None:
    for body in ({"value": [SECRET]}, {"value": SECRET, SECRET: 1}, {"value": {"x": SECRET}}):
        answer = rig.call("PUT", "secrets/KEY", json=body)
        assert answer.status_code == 422
        assert f"{SECRET}" not in error_of(answer)["message"]
