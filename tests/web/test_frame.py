"""Tests of login, navigation, themes and languages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from bench.running import RunningService
from gpusquad.cli import dashboard
from tests.web.browser import save_screenshot, violations
from tests.web.visit import address, admin_token, log_in, new_user

PAGES = ("Cluster", "Queue", "Inbox", "Timeline", "Submit", "Policy", "Interference", "Predictions", "Admin")


def test_link_logs_in_and_leaves_no_token_in_the_address(page: Any, service: RunningService) -> None:
    log_in(page, service)
    expect(page.get_by_role("heading", name="Cluster", level=1)).to_be_visible()
    assert page.evaluate("location.href") == f"{address(service)}/"
    assert page.evaluate("history.length") <= 2
    assert page.evaluate("document.cookie") == ""
    expect(page.get_by_title("live", exact=True)).to_be_visible()


def test_redirect_file_of_the_command_line_logs_in(page: Any, service: RunningService, tmp_path: Path) -> None:
    file = tmp_path / "redirect.html"
    file.write_text(dashboard._redirect_page(dashboard._link(f"{address(service)}/", admin_token(service))))
    page.goto(file.as_uri())
    expect(page.get_by_role("heading", name="Cluster", level=1)).to_be_visible()
    assert page.evaluate("location.href") == f"{address(service)}/"
    assert service.client.health.has_dashboard()


def test_valid_token_logs_in_and_wrong_tokens_do_not(page: Any, service: RunningService) -> None:
    page.page_errors.expected.append("401")
    page.goto(f"{address(service)}/queue")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert violations(page) == []
    save_screenshot(page, "login")
    for invalid_token, message in (("hello", "starts with gsq_"), ("gsq_" + "a" * 52, "Unknown token")):
        page.get_by_label("Token").fill(invalid_token)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text(message)
    page.get_by_label("Token").fill(admin_token(service))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Queue", level=1)).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Queue", level=1)).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def test_revoked_token_ends_the_session(page: Any, service: RunningService) -> None:
    page.page_errors.expected.append("401")
    log_in(page, service, new_user(service, "gone"))
    http = service.client.http
    token = next(item for item in http.get("tokens")["items"] if item["user"] == "gone")
    http.delete("tokens", token["id"])
    expect(page.get_by_role("alert")).to_contain_text("no longer valid", timeout=30_000)


def test_navigation_reaches_every_page(page: Any, service: RunningService) -> None:
    log_in(page, service)
    links = page.get_by_role("navigation").get_by_role("link")
    expect(links).to_have_text(list(PAGES))
    for name in PAGES:
        links.get_by_text(name, exact=True).click()
        expect(links.get_by_text(name, exact=True)).to_have_attribute("aria-current", "page")
        expect(page.get_by_role("main")).to_be_focused() if name != "Cluster" else None


def test_viewer_has_no_submit_link(page: Any, service: RunningService) -> None:
    log_in(page, service, new_user(service, "looker", role="viewer"))
    expect(page.get_by_role("navigation").get_by_role("link", name="Submit")).to_have_count(0)


def test_theme_and_language_are_switched_and_kept(page: Any, service: RunningService) -> None:
    log_in(page, service)
    page.get_by_label("Theme").select_option("dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.get_by_label("Language").select_option("ko")
    expect(page.get_by_role("heading", name="클러스터", level=1)).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "ko"
    page.reload()
    expect(page.get_by_role("heading", name="클러스터", level=1)).to_be_visible()
    assert violations(page) == []
    save_screenshot(page, "cluster-dark-ko")


def test_navigation_is_behind_a_menu_button_on_a_phone(open_page: Callable[..., Any], service: RunningService) -> None:
    page = open_page(390, 844, has_touch=True, is_mobile=True)
    log_in(page, service)
    expect(page.get_by_role("heading", name="Cluster", level=1)).to_be_visible()
    expect(page.get_by_role("link", name="Queue")).to_be_hidden()
    save_screenshot(page, "cluster-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Queue").click()
    expect(page).to_have_url(re.compile("/queue$"))
    expect(page.get_by_role("link", name="Queue")).to_be_hidden()


def test_unknown_address_shows_page_not_found(page: Any, service: RunningService) -> None:
    log_in(page, service, path="/no/such/page")
    expect(page.get_by_text("Page not found.")).to_be_visible()
    assert violations(page) == []
