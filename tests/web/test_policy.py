"""Tests of the policy page: current policies, preview and switch, cards and SLOs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from gpusquad.server.schemas.cards import CardNow, TenantNow, UnmanagedNow
from tests.web.browser import save_screenshot, violations
from tests.web.visit import log_in, new_user

HTML_NAME = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module", autouse=True)
def _queue(service: RunningService) -> None:
    """One long job runs, another is pending with short ones behind it. Pending jobs have deadlines."""
    service.client.http.put("tenants", "default", body={"weight": 2.0})
    service.wait(service.submit(name="running", gpus=16, command="sleep 900", estimate="30m"), "running")
    service.submit(name="long", gpus=16, command="sleep 900", estimate="8h", slo={"deadline": "24h"})
    for name in ("short-0", "short-1", "short-2", "short-3", "short-4", HTML_NAME):
        service.submit(name=name, gpus=16, command="sleep 60", estimate="1m", slo={"deadline": "1s"})


def client_now(job: str | None, **fields: Any) -> TenantNow:
    defaults = {
        "job": job, "name": HTML_NAME if job else None, "user": "ann" if job else None, "id": None, "groups": 5,
        "sm_ratio": 1 / 3, "used_bytes": 2**30, "quota_bytes": 8 * 2**30, "peak_bytes": 2**31, "weight": 1.0,
        "priority": 0, "slo": {"latency_us": 20_000}, "attainment_ratio": 0.97, "credit_us": 400, "waiting": None,
        "waited_s": 90.0, "is_idle": False, "processes": 1, "isolation": "shared", "note": "",
        "iterations_per_s": 12.345,
    }  # fmt: skip
    return TenantNow.model_validate(defaults | fields)


def _open(page: Any, service: RunningService, token: str = "") -> None:
    log_in(page, service, token, path="/policy")
    expect(page.get_by_role("heading", name="Policy", level=1)).to_be_visible()


def test_mode_is_previewed_and_switched(page: Any, service: RunningService) -> None:
    _open(page, service)
    now = page.get_by_role("region", name="Current policies")
    expect(now).to_contain_text("standard")
    page.get_by_label("Mode").select_option("jct")
    page.get_by_label("Reason (for the record)").fill("short ones wait too long")
    page.get_by_role("button", name="Preview").click()
    effect_table = page.get_by_role("group", name="Effect on the current queue")
    expect(effect_table.get_by_role("row")).to_have_count(8)  # the header, the long job and six short ones
    expect(effect_table.get_by_role("row", name="short-3")).to_contain_text("−8h")
    expect(effect_table.get_by_role("link", name=HTML_NAME)).to_be_visible()
    expect(effect_table.get_by_role("row", name="long")).to_contain_text("+6m")
    assert violations(page) == []
    save_screenshot(page, "policy-preview", full_page=True)
    assert service.client.http.get("policy")["mode"] == "standard"
    page.get_by_role("button", name="Switch").click()
    dialog = page.get_by_role("dialog", name="Switch to these policies?")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    expect(dialog).to_contain_text("mode: jct")
    dialog.get_by_role("button", name="Switch").click()
    expect(now).to_contain_text("sjf")
    expect(page.get_by_role("region", name="Revisions")).to_contain_text("short ones wait too long")
    assert service.client.http.get("policy")["mode"] == "jct"
    save_screenshot(page, "policy", full_page=True)


def test_unknown_policy_is_refused_at_its_field(page: Any, service: RunningService) -> None:
    page.page_errors.expected.append("422")
    _open(page, service)
    order = page.get_by_label("Order: sorts the queue")
    order.fill("nobody")
    page.get_by_role("button", name="Preview").click()
    expect(order).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("order 'nobody' does not exist")).to_be_visible()


def test_divide_policy_of_one_card_is_changed(page: Any, service: RunningService) -> None:
    _open(page, service)
    page.get_by_role("button", name="Change SIM-3").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Divide policy").fill("slo")
    assert violations(page) == []
    dialog.get_by_role("button", name="Save").click()
    first = page.get_by_role("region", name="Cards").get_by_role("row").nth(1)
    expect(first).to_contain_text("SIM-3")
    expect(first).to_contain_text("slo")
    expect(first).to_contain_text("own")
    assert service.client.http.get("cards", "SIM-3")["divide"]["policy"] == "slo"


def test_clients_of_a_shared_card_are_shown(page: Any, service: RunningService) -> None:
    """The route adds a card state that simulated cards do not have."""
    card = service.client.http.get("cards", "SIM-2")
    assert card["now"] is None
    now = CardNow(
        policy="slo", configuration="temporal", length_us=2000, squads=7, groups=15, why="serve goes first", failure="",
        pool="one pool", context_bytes=2**29, rule="report", unmanaged_count=1, stranger_count=0,
        unmanaged=[UnmanagedNow(pid=4711, name=HTML_NAME, memory_bytes=2**30)], strangers=[],
        tenants=[
            client_now("01a", isolation="isolated"), client_now(None, is_idle=None),
            client_now("01c", groups=0, waiting=2),
        ],
    )  # fmt: skip
    page.route("**/api/v1/cards/SIM-2", lambda route: route.fulfill(json=card | {"now": now.model_dump()}))
    _open(page, service)
    page.get_by_role("button", name="Show SIM-2").click()
    dialog = page.get_by_role("dialog", name="Card SIM-2 now")
    expect(dialog).to_contain_text("temporal, 2 ms each")
    expect(dialog).to_contain_text(f"1 outside gpusquad's control 4711 {HTML_NAME} · rule: report")
    first, other, third = (dialog.get_by_role("row").nth(row) for row in (1, 2, 3))
    expect(first.get_by_role("link", name=HTML_NAME)).to_be_visible()
    expect(first).to_contain_text("isolated")
    expect(first).to_contain_text("1 / 8 GiB")
    expect(first).to_contain_text("12.3")
    expect(other).to_contain_text("another tenant's job")
    expect(third).to_contain_text("waiting")
    assert violations(page) == []
    save_screenshot(page, "policy-card")
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Show SIM-4").click()
    expect(page.get_by_role("dialog")).to_contain_text("No GPU clients on this card now.")


def test_slos_are_listed_by_tenant(page: Any, service: RunningService) -> None:
    _open(page, service)
    row = page.get_by_role("row", name="default")
    expect(row).to_contain_text("0% (0/6)")
    expect(row).to_contain_text("7")


def test_slos_over_time_are_drawn(page: Any, service: RunningService) -> None:
    """The route adds attainments and past deadlines, which a simulated service does not have."""
    goals = service.client.http.get("goals")
    now_s, job = goals["until_s"], goals["jobs"][0]["job"]
    goals["deadlines"] = [
        {"at_s": now_s - hour * 3600, "tenant": "default", "met": 9 - hour % 4, "missed": hour % 4}
        for hour in range(20)
    ]
    goals["attainment"] = [
        {"at_s": now_s - 60 * step, "job": job, "attainment_ratio": 1 - step % 7 / 20, "weight": 1 + step % 3}
        for step in range(60)
    ]
    page.route("**/api/v1/goals", lambda route: route.fulfill(json=goals))
    _open(page, service)
    expect(page.get_by_text("Deadlines met over time")).to_be_visible()
    expect(page.get_by_text("150 of 180 met")).to_be_visible()
    expect(page.locator("canvas")).to_have_count(3)
    assert violations(page) == []
    save_screenshot(page, "policy-goals")


@pytest.mark.parametrize("role", ["viewer", "member"])
def test_only_administrators_can_switch_policies(page: Any, service: RunningService, role: str) -> None:
    _open(page, service, new_user(service, f"{role}-here", role=role))
    expect(page.get_by_text("Only administrators can switch policies.")).to_be_visible()
    expect(page.get_by_role("button", name="Preview")).to_have_count(0)
    expect(page.get_by_role("button", name="Change SIM-3")).to_have_count(0)


def test_policy_page_works_dark_in_korean_and_on_a_phone(
    open_page: Callable[..., Any], service: RunningService
) -> None:
    page = open_page(390, 844, has_touch=True, is_mobile=True, color_scheme="dark")
    _open(page, service)
    expect(page.get_by_role("button", name="Change SIM-3")).to_be_visible()
    page.get_by_role("button", name="Menu").click()
    page.get_by_label("Language").select_option("ko")
    page.get_by_role("button", name="메뉴").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    save_screenshot(page, "policy-phone-dark-ko", full_page=True)
