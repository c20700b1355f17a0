"""Tests of what each role can see and do, on the pages and by direct API calls from the browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from gpusquad.client.client import Client
from tests.web.browser import save_screenshot
from tests.web.visit import address, log_in, new_user

SECRET = "the-password-is-swordfish"
JOB_NAME = "quiet-work"
CALL = """async ([method, path, body]) => (await fetch('/api/v1/' + path, {
    method, body: body === null ? undefined : JSON.stringify(body),
    headers: {
        'Content-Type': 'application/json',
        Authorization: 'Bearer ' + sessionStorage.getItem('gpusquad.token'),
    },
})).status"""
CHANGES = (
    ("POST", "jobs", {"file": {"name": "x", "gpus": 1, "command": "true"}}),
    ("POST", "whatif", {"file": {"name": "x", "gpus": 1, "command": "true"}}),
    ("POST", "jobs/{job}/cancel", None),
    ("POST", "jobs/{job}/hold", None),
    ("POST", "jobs/{job}/resubmit", None),
    ("PATCH", "jobs/{job}", {"priority": "high"}),
    ("PUT", "policy", {"mode": "jct"}),
    ("POST", "policy/preview", {"mode": "jct"}),
    ("PUT", "cards/SIM-0/divide", {"policy": "slo"}),
    ("POST", "tenants", {"name": "mine"}),
    ("PUT", "tenants/default", {"weight": 99}),
    ("POST", "users", {"name": "friend", "role": "admin"}),
    ("PATCH", "users/admin", {"disabled": True}),
    ("POST", "tokens", {"user": "admin"}),
)


@pytest.fixture(scope="module")
def tokens(service: RunningService) -> dict[str, str]:
    return {
        "owner": new_user(service, "owner", tenant="red"),
        "colleague": new_user(service, "colleague", tenant="red"),
        "looker": new_user(service, "looker", role="viewer", tenant="red"),
        "stranger": new_user(service, "stranger", tenant="blue"),
    }


@pytest.fixture(scope="module")
def job(service: RunningService, tokens: dict[str, str]) -> str:
    """Running job of the tenant red, with a secret in its log."""
    owner_client = Client(address(service), tokens["owner"])
    file = {"name": JOB_NAME, "gpus": 1, "workdir": str(service.home), "command": f"echo {SECRET}; sleep 900"}
    job_id = owner_client.jobs.submit(file)["jobs"][0]["id"]
    service.wait(job_id, "running")
    return job_id


def _status(page: Any, method: str, path: str, body: Any = None) -> int:
    return page.evaluate(CALL, [method, path, body])


def test_owner_sees_the_log_and_can_act(page: Any, service: RunningService, tokens: Any, job: str) -> None:
    log_in(page, service, tokens["owner"], path=f"/jobs/{job}")
    expect(page.get_by_text(SECRET).first).to_be_visible(timeout=20_000)
    expect(page.get_by_role("button", name="Cancel job")).to_be_visible()
    assert _status(page, "GET", f"jobs/{job}/logs") == 200


def test_viewer_cannot_act(page: Any, service: RunningService, tokens: Any, job: str) -> None:
    page.page_errors.expected += ["403", "404"]
    log_in(page, service, tokens["looker"], path=f"/jobs/{job}")
    expect(page.get_by_role("heading", name=JOB_NAME, level=1)).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Cancel|Hold|Resubmit|Change"))).to_have_count(0)
    expect(page.get_by_text("Only the owner and administrators can read the log.")).to_be_visible()
    save_screenshot(page, "rights-viewer-job")
    page.get_by_role("link", name="Queue").click()
    expect(page.get_by_text(JOB_NAME).first).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Cancel|Hold|Change"))).to_have_count(0)
    page.get_by_role("link", name="Policy").click()
    expect(page.get_by_text("Only administrators can switch policies.")).to_be_visible()
    statuses = {f"{method} {path}": _status(page, method, path.format(job=job), body) for method, path, body in CHANGES}
    assert set(statuses.values()) == {403}, statuses
    assert _status(page, "GET", "audit") == 403
    assert service.client.jobs.get(job)["state"] == "running"


def test_member_of_the_tenant_sees_the_job_but_not_its_log(
    page: Any, service: RunningService, tokens: Any, job: str
) -> None:
    page.page_errors.expected += ["403"]
    log_in(page, service, tokens["colleague"], path=f"/jobs/{job}")
    expect(page.get_by_text("Only the owner and administrators can read the log.")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel job")).to_have_count(0)
    for endpoint in ("logs", "logs/stream", "source"):
        assert _status(page, "GET", f"jobs/{job}/{endpoint}") == 403, endpoint
    assert _status(page, "POST", f"jobs/{job}/cancel") == 403
    assert SECRET not in page.content()


def test_member_of_another_tenant_does_not_see_the_job(
    page: Any, service: RunningService, tokens: Any, job: str
) -> None:
    page.page_errors.expected += ["403", "404"]
    log_in(page, service, tokens["stranger"], path=f"/jobs/{job}")
    expect(page.get_by_role("alert")).to_contain_text("no job")
    save_screenshot(page, "rights-stranger-job")
    for endpoint in ("", "/logs", "/logs/stream", "/source", "/story", "/why", "/when", "/neighbours"):
        assert _status(page, "GET", f"jobs/{job}{endpoint}") == 404, endpoint
    assert _status(page, "POST", f"jobs/{job}/cancel") == 404
    assert _status(page, "GET", "jobs?tenant=red") == 403
    for name, title in (("Cluster", "Cluster"), ("Queue", "Queue"), ("Timeline", "Timeline")):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
        page.wait_for_timeout(1000)  # for the requests of the page
        assert JOB_NAME not in page.content(), name
        assert SECRET not in page.content(), name


def test_request_without_the_token_header_is_refused(page: Any, service: RunningService, job: str) -> None:
    """A page of another site can make a browser send cookies, but not the token, which is in no cookie."""
    page.page_errors.expected += ["401"]
    log_in(page, service)
    assert page.context.cookies() == []
    forged = f"fetch('/api/v1/jobs/{job}/cancel', {{method: 'POST', credentials: 'include'}}).then((one) => one.status)"
    assert page.evaluate(forged) == 401
    assert service.client.jobs.get(job)["state"] == "running"
