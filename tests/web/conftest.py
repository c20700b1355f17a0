"""Fixtures of the dashboard's tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.running import RunningService
from tests.web import browser as browsers

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Left out with a word where there is no browser or no page; in CI that is a failure."""
    mine = [item for item in items if HERE in item.path.parents]
    lacking = browsers.missing() if mine else ""
    if not lacking or os.environ.get("CI"):
        return
    for item in mine:
        item.add_marker(pytest.mark.skip(reason=lacking))


@pytest.fixture(scope="session")
def chrome() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    assert not browsers.missing(), browsers.missing()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browsers.chromium(), args=browsers.ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chrome: Any) -> Iterator[Callable[..., Any]]:
    """Makes pages, each of a visitor of its own: ``open_page(390, 844)``. At the end none has complained."""
    opened: list[tuple[Any, browsers.Complaints]] = []

    def make(width: int = 1360, height: int = 860, **options: Any) -> Any:
        context = chrome.new_context(
            viewport={"width": width, "height": height}, locale="en-GB", reduced_motion="reduce", **options
        )
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.complaints = browsers.Complaints(page)
        opened.append((context, page.complaints))
        return page

    yield make
    for context, _ in opened:
        context.close()
    assert not [one for _, complaints in opened for one in complaints.unexpected()]


@pytest.fixture
def page(open_page: Callable[..., Any]) -> Any:
    return open_page()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One for all tests of a file, with sixteen simulated cards."""
    running = RunningService(tmp_path_factory.mktemp("home") / "service", "--simulate", "16")
    yield running.start().checked()
    running.end()
