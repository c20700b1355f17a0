"""The queue: what it shows, what can be done there, and by whom."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from tests.web.browser import shoot, violations
from tests.web.visit import log_in, new_user

TRICK = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def full(service: RunningService) -> RunningService:
    """All cards taken for an hour, and some jobs that wait."""
    service.wait(service.submit(name="holds-all", gpus=16, command="sleep 3600", estimate=3600), "running")
    for index in range(12):
        service.submit(name=f"train-{index}", gpus=1 + index % 8, command="sleep 60", estimate=60 + index)
    service.submit(name="sweep-x", gpus=2, command="sleep 60")
    service.submit(name=TRICK, gpus=1, command="sleep 60")
    return service


def row(page: Any, name: str) -> Any:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def test_who_waits_why_and_until_when(page: Any, full: RunningService) -> None:
    log_in(page, full, path="/queue")
    first = row(page, "train-0")
    expect(first).to_contain_text("pending")
    expect(first).to_contain_text(re.compile("reserved|free|needs"))
    expect(row(page, "holds-all")).to_contain_text("running")
    expect(first.get_by_role("cell").nth(4)).to_contain_text(re.compile(r"\d\d:\d\d"), timeout=20_000)
    assert violations(page) == []
    shoot(page, "queue")


def test_a_start_that_is_not_certain_is_shown_as_a_range(page: Any, full: RunningService) -> None:
    def doubt(route: Any) -> None:
        answer = route.fetch()
        told = answer.json()
        for one in told["items"]:
            one["eta_high_s"] = None if one["eta_s"] is None else one["eta_s"] + 7200
        route.fulfill(response=answer, json=told)

    page.route("**/api/v1/queue?*", doubt)
    log_in(page, full, path="/queue")
    starts = row(page, "train-0").get_by_role("cell").nth(4)
    moment = r"(\w+ \d+ )?\d\d:\d\d"  # with the day, late in the evening
    expect(starts).to_have_text(re.compile(f"^{moment} – {moment}$"), timeout=20_000)
    shoot(page, "queue-range")


def test_names_are_text(page: Any, full: RunningService) -> None:
    log_in(page, full, path="/queue")
    expect(page.get_by_role("link", name=TRICK, exact=True)).to_be_visible()
    assert page.locator("main img").count() == 0


def test_filter_search_and_sort(page: Any, full: RunningService) -> None:
    log_in(page, full, path="/queue")
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


def test_a_job_is_reprioritised_and_moved(page: Any, full: RunningService) -> None:
    job = full.submit(name="to-change", gpus=1, command="sleep 60")
    log_in(page, full, path="/queue")
    page.get_by_role("button", name="Actions for to-change").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Priority").select_option("high")
    dialog.get_by_label("Queue in the tenant").fill("nightly")
    assert violations(page) == []
    shoot(page, "queue-actions")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Changed to-change.")).to_be_visible()
    expect(row(page, "to-change")).to_contain_text("high")
    told = full.client.jobs.get(job)
    assert (told["priority"], told["queue"]) == ("high", "nightly")


def test_by_keyboard_held_released_and_cancelled(page: Any, full: RunningService) -> None:
    job = full.submit(name="by-keys", gpus=1, command="sleep 60")
    log_in(page, full, path="/queue")
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
        full.wait(job, state)
        if state != "cancelled":
            expect(row(page, "by-keys")).to_contain_text(state)
    expect(row(page, "by-keys")).to_have_count(0)


def test_arrows_move_between_rows(page: Any, full: RunningService) -> None:
    log_in(page, full, path="/queue")
    page.get_by_role("link", name="train-0", exact=True).focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="train-1", exact=True)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("link", name="train-0", exact=True)).to_be_focused()


def test_a_viewer_sees_and_cannot_act(page: Any, full: RunningService) -> None:
    page.complaints.expected.append("403")
    token = new_user(full, "vic", role="viewer")
    log_in(page, full, token, path="/queue")
    expect(row(page, "train-0")).to_be_visible()
    expect(page.get_by_role("button", name="Actions for")).to_have_count(0)
    page.get_by_role("link", name="train-0", exact=True).focus()
    page.keyboard.press("c")
    expect(page.get_by_role("dialog")).to_have_count(0)
    job = full.client.jobs.get("train-0")["id"]
    status = page.evaluate(
        "async ([job, token]) => (await fetch(`/api/v1/jobs/${job}/cancel`, "
        "{method: 'POST', headers: {Authorization: `Bearer ${token}`}})).status",
        [job, token],
    )
    assert status == 403
    assert full.client.jobs.get(job)["state"] == "pending"


def test_another_tenant_sees_nothing_of_it(page: Any, full: RunningService) -> None:
    log_in(page, full, new_user(full, "olga", tenant="others"), path="/queue")
    expect(page.get_by_text("No running or pending jobs.")).to_be_visible()


def test_a_member_acts_on_their_own_jobs_only(page: Any, full: RunningService) -> None:
    log_in(page, full, new_user(full, "mia"), path="/queue")
    expect(row(page, "train-0")).to_be_visible()
    expect(page.get_by_role("button", name="Actions for")).to_have_count(0)


def test_the_queue_on_a_phone(open_page: Callable[..., Any], full: RunningService) -> None:
    page = open_page(390, 844, has_touch=True, is_mobile=True)
    log_in(page, full, path="/queue")
    expect(row(page, "train-0")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    shoot(page, "queue-phone")
