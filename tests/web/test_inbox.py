"""Tests of the inbox page and of the bell with the number of unread notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from tests.web.browser import save_screenshot, violations
from tests.web.visit import log_in, new_user

HTML_NAME = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def full_inbox(service: RunningService) -> RunningService:
    """Service whose administrator has notices of each outcome, and one of a sweep."""
    sweep = {"name": "sweep", "gpus": 1, "command": ["sh", "-c", "exit $1", "-", "${code}"],
             "sweep": {"code": [0, 0, 0, 0, 0, 3]}, "workdir": str(service.home)}  # fmt: skip
    jobs = [job["id"] for job in service.client.jobs.submit(sweep)["jobs"]]
    jobs += [
        service.submit(name="ends-well", command="true"),
        service.submit(name="fails", command="exit 3"),
        service.submit(name="too-long", command="sleep 60", limit="1s"),
        service.submit(name=HTML_NAME, command="true"),
    ]
    for job in jobs:
        service.wait(job)
    return service


def entry(page: Any, title: str) -> Any:
    return page.get_by_role("listitem").filter(has_text=title)


def test_inbox_shows_notices_of_all_outcomes_without_any_rule(page: Any, full_inbox: RunningService) -> None:
    log_in(page, full_inbox, path="/inbox")
    expect(entry(page, "ends-well has finished")).to_be_visible()
    expect(entry(page, "fails has failed")).to_contain_text("exit code 3")
    expect(entry(page, "too-long was stopped at its time limit")).to_contain_text("limit")
    sweep = entry(page, "sweep: 6 of 6 jobs ended: 5 succeeded, 1 failed")
    expect(sweep.get_by_role("link", name="sweep")).to_have_count(1)
    expect(entry(page, HTML_NAME)).to_be_visible()
    assert page.locator("main img").count() == 0
    assert violations(page) == []
    save_screenshot(page, "inbox")
    entry(page, "fails has failed").get_by_role("link").click()
    expect(page.get_by_role("heading", name="fails", level=1)).to_be_visible()


def test_bell_counts_new_notices_while_the_page_is_open(page: Any, full_inbox: RunningService) -> None:
    full_inbox.client.inbox.read(up_to=2**50)
    log_in(page, full_inbox)
    bell = page.get_by_role("banner").get_by_role("link", name="Inbox")
    expect(bell).to_have_accessible_name("Inbox")
    full_inbox.wait(full_inbox.submit(name="one-more", command="true"))
    expect(bell).to_have_accessible_name("Inbox: 1 unread")
    bell.click()
    expect(page.get_by_role("heading", name="Inbox", level=1)).to_be_visible()
    entry(page, "one-more has finished").get_by_role("button", name="Mark as read").click()
    expect(bell).to_have_accessible_name("Inbox")


def test_all_notices_are_marked_as_read_at_once(page: Any, full_inbox: RunningService) -> None:
    for name in ("a", "b"):
        full_inbox.wait(full_inbox.submit(name=name, command="true"))
    log_in(page, full_inbox, path="/inbox")
    page.get_by_role("button", name="Unread").click()
    expect(page.get_by_role("listitem").filter(has_text="has finished")).to_have_count(2)
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.get_by_text("You have read everything.")).to_be_visible()
    assert full_inbox.client.inbox.entries()["unread"] == 0


def test_new_user_has_an_empty_inbox_on_a_phone(open_page: Callable[..., Any], full_inbox: RunningService) -> None:
    page = open_page(390, 844)
    log_in(page, full_inbox, new_user(full_inbox, "fresh"), path="/inbox")
    expect(page.get_by_text("No notices yet.")).to_be_visible()
    assert violations(page) == []


def test_inbox_fits_a_phone(open_page: Callable[..., Any], full_inbox: RunningService) -> None:
    page = open_page(390, 844)
    log_in(page, full_inbox, path="/inbox")
    expect(entry(page, "fails has failed")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    save_screenshot(page, "inbox-phone")
