"""Tests of the queue page: columns, filters, actions and rights."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from tests.web.browser import save_screenshot, violations
from tests.web.visit import log_in, new_user

HTML_NAME = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def full_service(service: RunningService) -> RunningService:
    """Service with all cards in use for an hour and some pending jobs."""
    service.wait(service.submit(name="holds-all", gpus=16, command="sleep 3600", estimate=3600), "running")
    for index in range(12):
        service.submit(name=f"train-{index}", gpus=1 + index % 8, command="sleep 60", estimate=60 + index)
    service.submit(name="sweep-x", gpus=2, command="sleep 60")
    service.submit(name=HTML_NAME, gpus=1, command="sleep 60")
    return service


def row(page: Any, name: str) -> Any:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def test_pending_jobs_show_reason_and_expected_start(page: Any, full_service: RunningService) -> None:
    log_in(page, full_service, path="/queue")
    first = row(page, "train-0")
    expect(first).to_contain_text("pending")
    expect(first).to_contain_text(re.compile("reserved|free|needs"))
    expect(row(page, "holds-all")).to_contain_text("running")
    expect(first.get_by_role("cell").nth(4)).to_contain_text(re.compile(r"\d\d:\d\d"), timeout=20_000)
    assert violations(page) == []
    save_screenshot(page, "queue")


def test_uncertain_start_is_shown_as_a_range(page: Any, full_service: RunningService) -> None:
    def add_eta_high(route: Any) -> None:
        answer = route.fetch()
        queue = answer.json()
        for item in queue["items"]:
            item["eta_high_s"] = None if item["eta_s"] is None else item["eta_s"] + 7200
        route.fulfill(response=answer, json=queue)

    page.route("**/api/v1/queue?*", add_eta_high)
    log_in(page, full_service, path="/queue")
    start_cell = row(page, "train-0").get_by_role("cell").nth(4)
    time_pattern = r"(\w+ \d+ )?\d\d:\d\d"  # late in the evening with the day
    expect(start_cell).to_have_text(re.compile(f"^{time_pattern} – {time_pattern}$"), timeout=20_000)
    save_screenshot(page, "queue-range")


def test_job_names_are_shown_as_text(page: Any, full_service: RunningService) -> None:
    log_in(page, full_service, path="/queue")
    expect(page.get_by_role("link", name=HTML_NAME, exact=True)).to_be_visible()
    assert page.locator("main img").count() == 0


def test_queue_can_be_filtered_searched_and_sorted(page: Any, full_service: RunningService) -> None:
    log_in(page, full_service, path="/queue")
    expect(row(page, "train-0")).to_be_visible()
    page.get_by_role("searchbox").fill("sweep")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("searchbox").fill("train admin")
    expect(page.get_by_role("row")).to_have_count(13)
    page.get_by_role("button", name="GPUs").click()
    gpus = page.get_by_role("row").nth(1).get_by_role("cell").nth(5)
    expect(gpus).to_have_text("1")
    page.get_by_role("button", name="GPUs").click()
    expect(gpus).to_have_text("8")
    expect(page.get_by_role("columnheader", name="GPUs")).to_have_attribute("aria-sort", "descending")
    page.get_by_role("searchbox").fill("nothing like that")
    expect(page.get_by_text("No job matches the filter.")).to_be_visible()
    page.get_by_role("button", name="Clear filter").click()
    page.get_by_label("State").select_option("running")
    expect(page.get_by_role("row")).to_have_count(2)


def test_job_gets_another_priority_and_queue(page: Any, full_service: RunningService) -> None:
    job = full_service.submit(name="to-change", gpus=1, command="sleep 60")
    log_in(page, full_service, path="/queue")
    page.get_by_role("button", name="Actions for to-change").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Priority").select_option("high")
    dialog.get_by_label("Queue in the tenant").fill("nightly")
    assert violations(page) == []
    save_screenshot(page, "queue-actions")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Changed to-change.")).to_be_visible()
    expect(row(page, "to-change")).to_contain_text("high")
    view = full_service.client.jobs.get(job)
    assert (view["priority"], view["queue"]) == ("high", "nightly")


def test_job_is_held_released_and_cancelled_by_keyboard(page: Any, full_service: RunningService) -> None:
    job = full_service.submit(name="by-keys", gpus=1, command="sleep 60")
    log_in(page, full_service, path="/queue")
    for key, action, state in (
        ("h", "Hold", "held"),
        ("h", "Release", "pending"),
        ("c", "Cancel the job", "cancelled"),
    ):
        page.get_by_role("link", name="by-keys").focus()
        page.keyboard.press(key)
        dialog = page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        page.get_by_role("link", name="by-keys").focus()
        page.keyboard.press(key)
        dialog.get_by_role("button", name=action, exact=True).focus()
        page.keyboard.press("Enter")
        expect(dialog).to_be_hidden()
        full_service.wait(job, state)
        if state != "cancelled":
            expect(row(page, "by-keys")).to_contain_text(state)
    expect(row(page, "by-keys")).to_have_count(0)


def test_arrow_keys_move_between_rows(page: Any, full_service: RunningService) -> None:
    log_in(page, full_service, path="/queue")
    page.get_by_role("link", name="train-0", exact=True).focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="train-1", exact=True)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("link", name="train-0", exact=True)).to_be_focused()


def test_viewer_sees_jobs_but_cannot_act(page: Any, full_service: RunningService) -> None:
    page.page_errors.expected.append("403")
    token = new_user(full_service, "vic", role="viewer")
    log_in(page, full_service, token, path="/queue")
    expect(row(page, "train-0")).to_be_visible()
    expect(page.get_by_role("button", name="Actions for")).to_have_count(0)
    page.get_by_role("link", name="train-0", exact=True).focus()
    page.keyboard.press("c")
    expect(page.get_by_role("dialog")).to_have_count(0)
    job = full_service.client.jobs.get("train-0")["id"]
    status = page.evaluate(
        "async ([job, token]) => (await fetch(`/api/v1/jobs/${job}/cancel`, "
        "{method: 'POST', headers: {Authorization: `Bearer ${token}`}})).status",
        [job, token],
    )
    assert status == 403
    assert full_service.client.jobs.get(job)["state"] == "pending"


def test_user_of_another_tenant_sees_no_jobs(page: Any, full_service: RunningService) -> None:
    log_in(page, full_service, new_user(full_service, "olga", tenant="others"), path="/queue")
    expect(page.get_by_text("No running or pending jobs.")).to_be_visible()


def test_member_cannot_act_on_jobs_of_others(page: Any, full_service: RunningService) -> None:
    log_in(page, full_service, new_user(full_service, "mia"), path="/queue")
    expect(row(page, "train-0")).to_be_visible()
    expect(page.get_by_role("button", name="Actions for")).to_have_count(0)


def test_queue_page_fits_on_a_phone(open_page: Callable[..., Any], full_service: RunningService) -> None:
    page = open_page(390, 844, has_touch=True, is_mobile=True)
    log_in(page, full_service, path="/queue")
    expect(row(page, "train-0")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    save_screenshot(page, "queue-phone")
