"""Small to load, and smooth with ten thousand jobs and a thousand cards."""

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
from tests.web.browser import LONGEST_TASK_MS, figure, shoot
from tests.web.pretend import PretendCluster
from tests.web.visit import admin_token, log_in

FIRST_LOAD_BYTES = 300_000
JOBS = int(os.environ.get("GPUSQUAD_QUEUED", "10000"))
CARDS = 1000
A_SWEEP = 1000
OBSERVE = """() => {
  window.longTasks = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longTasks.push(entry.duration);
  }).observe({ type: "longtask", buffered: false });
}"""


def test_the_first_load_is_small(page: Any, service: RunningService) -> None:
    """All scripts from the empty tab to the cluster, logged in; measured as they travel, and packed again by us."""
    sent: dict[str, bytes] = {}
    page.on("response", lambda answer: sent.update({answer.url: b""}) if answer.url.endswith(".js") else None)
    log_in(page, service)
    expect(page.locator("li[data-state]")).to_have_count(16)
    sizes = {url: len(gzip.compress(page.request.get(url).body(), 9)) for url in sent}
    total = sum(sizes.values())
    figure("first load, packed JavaScript, kB", total / 1000)
    assert 0 < total < FIRST_LOAD_BYTES, sizes


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A thousand cards, all taken by one gang, and ten thousand jobs that wait for them."""
    home: Path = tmp_path_factory.mktemp("home") / "service"
    running = RunningService(home, "--simulate", str(CARDS)).start().checked()
    running.wait(running.submit(name="holds-all", gpus=CARDS, command="sleep 3600", estimate=3600), "running")
    for part in range(JOBS // A_SWEEP):
        running.submit(
            name=f"train-{part}-${{n}}", gpus=1 + part % 8, command="sleep 60", estimate=60,
            params={"n": None}, sweep={"n": list(range(A_SWEEP))},
        )  # fmt: skip
    yield running
    running.end()


def _while_jobs_change(service: RunningService, do: Callable[[], None]) -> None:
    """Jobs come and go, several a second, while the visitor does something."""
    over = threading.Event()
    client = RunningService(service.home).client

    def change() -> None:
        number = 0
        while not over.wait(0.15):
            number += 1
            job = client.jobs.submit({"name": f"new-{number}", "gpus": 1, "command": "true", "workdir": "/tmp"})
            client.jobs.cancel(job["jobs"][0]["id"])

    worker = threading.Thread(target=change)
    worker.start()
    try:
        do()
    finally:
        over.set()
        worker.join()


def _longest_ms(page: Any, what: str) -> float:
    return figure(f"{what}: longest task, ms", max(page.evaluate("window.longTasks"), default=0.0))


@pytest.mark.slow
def test_ten_thousand_jobs_scroll_and_update(page: Any, crowded: RunningService) -> None:
    log_in(page, crowded, path="/queue")
    expect(page.get_by_role("status").filter(has_text=f"{JOBS + 1:,} jobs")).to_be_visible(timeout=60_000)
    page.evaluate(OBSERVE)

    def scroll() -> None:
        page.mouse.move(700, 500)
        for step in range(60):
            page.mouse.wheel(0, 4000 if step % 2 else 700)
            page.wait_for_timeout(100)
        page.get_by_role("searchbox").fill("train-0-99")
        expect(page.get_by_role("row")).to_have_count(12)
        page.get_by_role("searchbox").fill("")
        page.get_by_role("button", name="Job", exact=True).click()
        page.wait_for_timeout(3000)
        page.evaluate("window.scrollTo(0, 0)")
        page.wait_for_timeout(3000)

    _while_jobs_change(crowded, scroll)
    shoot(page, "queue-10000")
    assert _longest_ms(page, "queue of 10,000 jobs") < LONGEST_TASK_MS


@pytest.mark.slow
@pytest.mark.parametrize("view", ["Cells", "Tiles"])
def test_a_thousand_cards_scroll_and_update(page: Any, crowded: RunningService, view: str) -> None:
    log_in(page, crowded)
    page.get_by_role("button", name=view).click()
    expect(page.get_by_text(f"0 of {CARDS:,} free")).to_be_visible()
    page.evaluate(OBSERVE)

    def scroll() -> None:
        page.mouse.move(700, 500)
        for step in range(40):
            page.mouse.wheel(0, 900 if step < 30 else -2500)
            page.wait_for_timeout(150)
        page.wait_for_timeout(4000)

    _while_jobs_change(crowded, scroll)
    shoot(page, f"cluster-1000-{view.lower()}")
    assert _longest_ms(page, f"1,000 cards, {view.lower()}") < LONGEST_TASK_MS


@pytest.mark.slow
@pytest.mark.parametrize("view", ["Cells", "Tiles"])
def test_a_thousand_busy_cards_of_many_nodes(page: Any, service: RunningService, view: str) -> None:
    """Every reading differs at every look."""
    PretendCluster(racks=8, nodes=16).stand_in(page)
    log_in(page, service)
    page.get_by_role("button", name=view).click()
    expect(page.get_by_role("heading", name="Rack r1")).to_be_visible()
    page.evaluate(OBSERVE)
    page.mouse.move(700, 500)
    for step in range(40):
        page.mouse.wheel(0, 900 if step < 30 else -2500)
        page.wait_for_timeout(150)
    page.wait_for_timeout(4000)
    shoot(page, f"cluster-1024-{view.lower()}")
    assert _longest_ms(page, f"1,024 busy cards, {view.lower()}") < LONGEST_TASK_MS


def test_a_token_is_never_in_a_request_but_in_its_header(page: Any, service: RunningService) -> None:
    asked: list[Any] = []
    page.on("request", lambda one: asked.append(one))
    log_in(page, service)
    expect(page.locator("li[data-state]")).to_have_count(16)
    token = admin_token(service)
    assert not [one.url for one in asked if token in one.url.partition("#")[0] or token in (one.post_data or "")]
    assert any(token in one.headers.get("authorization", "") for one in asked)
