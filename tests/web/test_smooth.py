"""Tests of the dashboard's load size and responsiveness with 10,000 jobs and 1,000 cards."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from tests.web.browser import LONGEST_TASK_MS, record_figure, save_screenshot
from tests.web.fake_cluster import FakeCluster
from tests.web.visit import admin_token, log_in

FIRST_LOAD_BYTES = 300_000
JOBS = int(os.environ.get("GPUSQUAD_QUEUED", "10000"))
CARDS = 1000
SWEEP_SIZE = 1000
OBSERVE = """() => {
  window.longTasks = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longTasks.push(entry.duration);
  }).observe({ type: "longtask", buffered: false });
}"""


def test_first_load_is_small(page: Any, service: RunningService) -> None:
    """Sum of all scripts until the cluster page is shown, compressed with gzip."""
    scripts: dict[str, bytes] = {}
    page.on("response", lambda answer: scripts.update({answer.url: b""}) if answer.url.endswith(".js") else None)
    log_in(page, service)
    expect(page.locator("li[data-state]")).to_have_count(16)
    sizes = {url: len(gzip.compress(page.request.get(url).body(), 9)) for url in scripts}
    total = sum(sizes.values())
    record_figure("first load, packed JavaScript, kB", total / 1000)
    assert 0 < total < FIRST_LOAD_BYTES, sizes


@pytest.fixture(scope="module")
def large_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """Service with a thousand cards, all used by one gang, and ten thousand pending jobs."""
    home: Path = tmp_path_factory.mktemp("home") / "service"
    running = RunningService(home, "--simulate", str(CARDS)).start().checked()
    running.wait(running.submit(name="holds-all", gpus=CARDS, command="sleep 3600", estimate=3600), "running")
    for sweep_number in range(JOBS // SWEEP_SIZE):
        running.submit(
            name=f"train-{sweep_number}-${{n}}", gpus=1 + sweep_number % 8, command="sleep 60", estimate=60,
            params={"n": None}, sweep={"n": list(range(SWEEP_SIZE))},
        )  # fmt: skip
    yield running
    running.end()


def _while_jobs_change(service: RunningService, interact: Callable[[], None]) -> None:
    """Call ``interact`` while several jobs per second are submitted and cancelled."""
    stop = threading.Event()
    client = RunningService(service.home).client

    def change() -> None:
        number = 0
        while not stop.wait(0.15):
            number += 1
            job = client.jobs.submit({"name": f"new-{number}", "gpus": 1, "command": "true", "workdir": "/tmp"})
            client.jobs.cancel(job["jobs"][0]["id"])

    worker = threading.Thread(target=change)
    worker.start()
    try:
        interact()
    finally:
        stop.set()
        worker.join()


def _longest_ms(page: Any, what: str) -> float:
    return record_figure(f"{what}: longest task, ms", max(page.evaluate("window.longTasks"), default=0.0))


@pytest.mark.slow
def test_queue_of_ten_thousand_jobs_stays_smooth(page: Any, large_service: RunningService) -> None:
    log_in(page, large_service, path="/queue")
    expect(page.get_by_role("status").filter(has_text=f"{JOBS + 1:,} jobs")).to_be_visible(timeout=60_000)
    page.evaluate(OBSERVE)

    def scroll() -> None:
        page.mouse.move(700, 500)
        for step in range(60):
            page.mouse.wheel(0, 4000 if step % 2 else 700)
            page.wait_for_timeout(100)
        page.get_by_role("searchbox").fill("train-0-99")
        expect(page.get_by_role("table").first.get_by_role("row")).to_have_count(12)
        page.get_by_role("searchbox").fill("")
        page.get_by_role("button", name="Job", exact=True).click()
        page.wait_for_timeout(3000)
        page.evaluate("window.scrollTo(0, 0)")
        page.wait_for_timeout(3000)

    _while_jobs_change(large_service, scroll)
    save_screenshot(page, "queue-10000")
    assert _longest_ms(page, "queue of 10,000 jobs") < LONGEST_TASK_MS


@pytest.mark.slow
@pytest.mark.parametrize("view", ["Cells", "Tiles"])
def test_thousand_cards_stay_smooth(page: Any, large_service: RunningService, view: str) -> None:
    log_in(page, large_service)
    page.get_by_role("button", name=view).click()
    expect(page.get_by_text(f"0 of {CARDS:,} free")).to_be_visible()
    page.evaluate(OBSERVE)

    def scroll() -> None:
        page.mouse.move(700, 500)
        for step in range(40):
            page.mouse.wheel(0, 900 if step < 30 else -2500)
            page.wait_for_timeout(150)
        page.wait_for_timeout(4000)

    _while_jobs_change(large_service, scroll)
    save_screenshot(page, f"cluster-1000-{view.lower()}")
    assert _longest_ms(page, f"1,000 cards, {view.lower()}") < LONGEST_TASK_MS


@pytest.mark.slow
@pytest.mark.parametrize("view", ["Cells", "Tiles"])
def test_thousand_busy_cards_of_many_nodes_stay_smooth(page: Any, service: RunningService, view: str) -> None:
    """All samples differ in every answer."""
    FakeCluster(racks=8, nodes=16).route_requests(page)
    log_in(page, service)
    page.get_by_role("button", name=view).click()
    expect(page.get_by_role("heading", name="Rack r1")).to_be_visible()
    page.evaluate(OBSERVE)
    page.mouse.move(700, 500)
    for step in range(40):
        page.mouse.wheel(0, 900 if step < 30 else -2500)
        page.wait_for_timeout(150)
    page.wait_for_timeout(4000)
    save_screenshot(page, f"cluster-1024-{view.lower()}")
    assert _longest_ms(page, f"1,024 busy cards, {view.lower()}") < LONGEST_TASK_MS


def test_token_is_sent_only_in_the_authorization_header(page: Any, service: RunningService) -> None:
    requests: list[Any] = []
    page.on("request", lambda sent_request: requests.append(sent_request))
    log_in(page, service)
    expect(page.locator("li[data-state]")).to_have_count(16)
    token = admin_token(service)
    assert not [
        sent_request.url
        for sent_request in requests
        if token in sent_request.url.partition("#")[0] or token in (sent_request.post_data or "")
    ]
    assert any(token in sent_request.headers.get("authorization", "") for sent_request in requests)
