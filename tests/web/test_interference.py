"""Tests of the interference page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from tests.web.browser import ROOT, save_screenshot, violations
from tests.web.visit import log_in


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """Service with a series of measurements in its home folder."""
    home = tmp_path_factory.mktemp("measured") / "service"
    (home / "interference").mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "interference.json", home / "interference")
    running = RunningService(home, "--simulate", "2", config='[interference]\nsharing = "mps"\n')
    yield running.start().checked()
    running.end()


def _open(page: Any, service: RunningService) -> None:
    log_in(page, service, path="/interference")
    expect(page.get_by_role("heading", name="Interference", level=1)).to_be_visible()


def test_heat_map_is_a_table_with_rates_and_slowdowns(page: Any, measured: RunningService) -> None:
    _open(page, measured)
    card = measured.client.http.get("interference")["cards"][0]
    heat_map = page.get_by_role("group", name="Rate beside a neighbour").get_by_role("table")
    names = [workload["name"] for workload in card["workloads"]]
    expect(heat_map.get_by_role("rowheader")).to_have_text(names)
    expect(heat_map.get_by_role("cell")).to_have_count(len(names) ** 2)
    pair = next(workload for workload in card["pairs"] if (workload["own"], workload["other"]) == (names[0], names[1]))
    cell = heat_map.get_by_role("row").nth(1).get_by_role("cell").nth(1)
    expect(cell).to_have_text(f"{round(pair['speed_ratio'] * 100)}%")
    page.get_by_role("button", name="Slowdown").click()
    expect(cell).to_have_text(f"{pair['slowdown']:.2f}×")
    expect(page.locator("canvas")).to_have_count(1)
    expect(page.get_by_role("region", name="Prediction error")).to_contain_text("Pairs with SM partitions")
    assert violations(page) == []
    save_screenshot(page, "interference", full_page=True)


def test_page_without_data_shows_a_message(page: Any, service: RunningService) -> None:
    _open(page, service)
    expect(page.get_by_text("No measured or learned data yet.")).to_be_visible()
    assert violations(page) == []


def test_interference_page_works_dark_on_a_phone(open_page: Callable[..., Any], measured: RunningService) -> None:
    page = open_page(390, 844, has_touch=True, is_mobile=True, color_scheme="dark")
    _open(page, measured)
    expect(page.locator("canvas")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    save_screenshot(page, "interference-phone-dark", full_page=True)
