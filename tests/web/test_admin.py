"""Tests of the admin page: tenants, users, tokens and the audit log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from bench.running import RunningService
from tests.web.browser import save_screenshot, violations
from tests.web.visit import log_in, new_user


def _open(page: Any, service: RunningService, section: str = "", token: str = "") -> None:
    log_in(page, service, token, path="/admin")
    expect(page.get_by_role("heading", name="Admin", level=1)).to_be_visible()
    if section:
        page.get_by_role("button", name=section, exact=True).click()


def test_tenant_is_created_and_its_limit_changed(page: Any, service: RunningService) -> None:
    page.page_errors.expected.append("422")
    _open(page, service)
    page.get_by_role("button", name="Add tenant").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("vision")
    dialog.get_by_label("Weight").fill("2.5")
    dialog.get_by_label("Guaranteed GPUs").fill("8")
    dialog.get_by_label("GPU limit").fill("4")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text("must not exceed limit_gpus")).to_be_visible()
    assert violations(page) == []
    save_screenshot(page, "admin-tenant")
    dialog.get_by_label("GPU limit").fill("12")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row", name="vision")).to_contain_text("12")
    page.get_by_role("button", name="Edit vision").click()
    page.get_by_role("dialog").get_by_label("GPU limit").fill("")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    saved = next(item for item in service.client.http.get("tenants")["items"] if item["name"] == "vision")
    assert (saved["weight"], saved["guaranteed_gpus"], saved["limit_gpus"]) == (2.5, 8, None)
    save_screenshot(page, "admin")


def test_user_is_created_and_disabled(page: Any, service: RunningService) -> None:
    _open(page, service, "Users")
    page.get_by_role("button", name="Add user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("ann")
    dialog.get_by_label("Role").select_option("viewer")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row", name="ann")).to_contain_text("viewer")
    page.get_by_role("button", name="Edit ann").click()
    page.get_by_label("Disabled").check()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("row", name="ann")).to_contain_text("disabled")
    assert violations(page) == []
    save_screenshot(page, "admin-users")


def test_token_is_shown_once_copied_and_revoked(page: Any, service: RunningService) -> None:
    _open(page, service, "Tokens")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Create token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Label").fill("my laptop")
    dialog.get_by_label("Expires after").select_option("30")
    dialog.get_by_label("Permissions").select_option("submit")
    dialog.get_by_role("button", name="Create token").click()
    token = page.get_by_role("dialog", name="New token").locator("code").inner_text()
    assert token.startswith("gsq_")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == token
    assert violations(page) == []
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_text(token)).to_have_count(0)
    assert token not in page.content()
    row = page.get_by_role("row", name="my laptop")
    expect(row).to_contain_text("read, submit")
    save_screenshot(page, "admin-tokens")
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)
    page.get_by_label("Only valid tokens").uncheck()
    expect(row).to_contain_text("revoked")


def test_audit_log_is_paged_and_filtered(page: Any, service: RunningService) -> None:
    for number in range(60):
        service.client.http.put("tenants", f"t{number:02}", body={"weight": 1.0})
    _open(page, service, "Audit")
    rows = page.get_by_role("table").get_by_role("row")
    expect(rows).to_have_count(51)
    page.get_by_role("button", name="Show more").click()
    expect(rows).not_to_have_count(51)
    page.get_by_label("Target").fill("t07")
    page.get_by_role("button", name="Filter").click()
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("tenant.set")
    assert violations(page) == []
    save_screenshot(page, "admin-audit")
    page.get_by_role("button", name="Clear").click()
    expect(rows.nth(50)).to_be_visible()


def test_member_sees_only_their_own_tenant_and_tokens(page: Any, service: RunningService) -> None:
    token = new_user(service, "bob", tenant="graphics")
    _open(page, service, token=token)
    expect(page.get_by_role("button", name="Audit")).to_have_count(0)
    expect(page.get_by_role("table").get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name="Tenants", exact=True).click()
    expect(page.get_by_role("rowheader")).to_have_text(["graphics"])
    expect(page.get_by_role("button", name="Add tenant")).to_have_count(0)
    expect(page.get_by_role("button", name="Edit graphics")).to_have_count(0)


def test_admin_page_works_dark_in_korean_and_on_a_phone(open_page: Callable[..., Any], service: RunningService) -> None:
    page = open_page(390, 844, has_touch=True, is_mobile=True, color_scheme="dark")
    _open(page, service, "Tokens")
    page.get_by_role("button", name="Menu").click()
    page.get_by_label("Language").select_option("ko")
    page.get_by_role("button", name="메뉴").click()
    expect(page.get_by_role("heading", name="관리", level=1)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    save_screenshot(page, "admin-phone-dark-ko")
