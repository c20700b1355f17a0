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
    """Skip these tests if the browser or the built dashboard is missing. In CI they fail instead."""
    web_items = [item for item in items if HERE in item.path.parents]
    skip_reason = browsers.missing() if web_items else ""
    if not skip_reason or os.environ.get("CI"):
        return
    for item in web_items:
        item.add_marker(pytest.mark.skip(reason=skip_reason))


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
    """Open pages, each with its own browser context: ``open_page(390, 844)``. Page errors fail the test."""
    opened: list[tuple[Any, browsers.PageErrors]] = []

    def make(width: int = 1360, height: int = 860, **options: Any) -> Any:
        context = chrome.new_context(
            viewport={"width": width, "height": height}, locale="en-GB", reduced_motion="reduce", **options
        )
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.page_errors = browsers.PageErrors(page)
        opened.append((context, page.page_errors))
        return page

    yield make
    for context, _ in opened:
        context.close()
    assert not [error for _, page_errors in opened for error in page_errors.unexpected()]


@pytest.fixture
def page(open_page: Callable[..., Any]) -> Any:
    return open_page()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """Service with sixteen simulated cards, shared by the tests of a file."""
    running = RunningService(tmp_path_factory.mktemp("home") / "service", "--simulate", "16")
    yield running.start().checked()
    running.end()
