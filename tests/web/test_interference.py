"""The page of what jobs on one card cost each other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from tests.web.browser import ROOT, shoot, violations
from tests.web.visit import log_in


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service that finds a series of measurements in its home."""
    home = tmp_path_factory.mktemp("measured") / "service"
    (home / "interference").mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "interference.json", home / "interference")
    running = RunningService(home, "--simulate", "2", config='[interference]\nsharing = "mps"\n')
    yield running.start().checked()
    running.end()


def _open(page: Any, service: RunningService) -> None:
    log_in(page, service, path="/interference")
    expect(page.get_by_role("heading", name="Interference", level=1)).to_be_visible()


def test_the_heat_map_is_a_table_that_can_be_read(page: Any, measured: RunningService) -> None:
    _open(page, measured)
    told = measured.client.http.get("interference")["cards"][0]
    heat = page.get_by_role("group", name="Rate beside a neighbour").get_by_role("table")
    names = [one["name"] for one in told["workloads"]]
    expect(heat.get_by_role("rowheader")).to_have_text(names)
    expect(heat.get_by_role("cell")).to_have_count(len(names) ** 2)
    pair = next(one for one in told["pairs"] if (one["own"], one["other"]) == (names[0], names[1]))
    cell = heat.get_by_role("row").nth(1).get_by_role("cell").nth(1)
    expect(cell).to_have_text(f"{round(pair['speed_ratio'] * 100)}%")
    page.get_by_role("button", name="Slowdown").click()
    expect(cell).to_have_text(f"{pair['slowdown']:.2f}×")
    expect(page.locator("canvas")).to_have_count(1)
    expect(page.get_by_role("region", name="Prediction error")).to_contain_text("Pairs with SM partitions")
    assert violations(page) == []
    shoot(page, "interference", whole=True)


def test_where_nothing_is_known_it_says_how_to_measure(page: Any, service: RunningService) -> None:
    _open(page, service)
    expect(page.get_by_text("No measured or learned data yet.")).to_be_visible()
    assert violations(page) == []


def test_dark_and_on_a_phone(open_page: Callable[..., Any], measured: RunningService) -> None:
    page = open_page(390, 844, has_touch=True, is_mobile=True, color_scheme="dark")
    _open(page, measured)
    expect(page.locator("canvas")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    shoot(page, "interference-phone-dark", whole=True)
