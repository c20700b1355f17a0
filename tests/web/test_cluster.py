"""Tests of the cluster page with all cards."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from bench.running import RunningService
from tests.web.browser import save_screenshot, violations
from tests.web.fake_cluster import FakeCluster
from tests.web.visit import log_in


def test_tiles_follow_the_state_of_the_cards(page: Any, service: RunningService) -> None:
    log_in(page, service)
    tiles = page.locator("li[data-state]")
    expect(tiles).to_have_count(16)
    expect(page.locator("li[data-state=free]")).to_have_count(16)
    job = service.submit(name="train-a", gpus=4, command="sleep 600")
    service.wait(job, "running")
    expect(page.locator("li[data-state=busy]")).to_have_count(4, timeout=10_000)
    expect(page.get_by_role("link", name="train-a")).to_have_count(4)
    summary = page.get_by_label("Cards by availability")
    expect(summary).to_contain_text("free12")
    expect(summary).to_contain_text("in use4")
    summary.get_by_label("Gang size").select_option("16")
    expect(summary.locator("[data-part=usable] dd")).to_have_text("0")
    summary.get_by_label("Gang size").select_option("8")
    expect(summary.locator("[data-part=usable] dd")).to_have_text("8")
    assert violations(page) == []
    save_screenshot(page, "cluster")
    service.client.jobs.cancel(job)
    expect(page.locator("li[data-state=free]")).to_have_count(16, timeout=20_000)


def test_cell_opens_by_keyboard(page: Any, service: RunningService) -> None:
    log_in(page, service)
    page.get_by_role("button", name="Cells").click()
    first = page.get_by_role("button", name="Card 0 of")
    first.focus()
    page.keyboard.press("Enter")
    expect(first).to_have_attribute("aria-expanded", "true")
    expect(page.locator("li[data-state]")).to_have_count(1)
    assert violations(page) == []
    save_screenshot(page, "cluster-cells")


def test_cards_are_grouped_by_rack_and_node(page: Any, service: RunningService) -> None:
    FakeCluster(racks=2, nodes=3).route_requests(page)
    log_in(page, service)
    expect(page.get_by_role("heading", name="Rack r1")).to_be_visible()
    expect(page.locator("li[data-state]")).to_have_count(48)
    shared = page.locator("li[data-state=shared]").first
    expect(shared).to_contain_text("50% SM · 36 GiB")
    assert violations(page) == []
    save_screenshot(page, "cluster-racks", full_page=True)
    page.get_by_role("button", name="Cells").click()
    assert violations(page) == []
    page.get_by_label("Theme").select_option("dark")
    save_screenshot(page, "cluster-racks-cells-dark")
    page.get_by_role("button", name="Tiles").click()
    assert violations(page) == []
    save_screenshot(page, "cluster-racks-dark")
