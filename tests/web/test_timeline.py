"""Tests of the timeline page: past, running and planned jobs per card."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from tests.web.browser import LONGEST_TASK_MS, record_figure, save_screenshot, violations
from tests.web.visit import log_in, new_user

HTML_NAME = "<img src=x onerror=alert(1)>"
STATUS = "p[role=status]"
FRAMES = """async (turns) => {
  const chart = document.querySelector('[role=application]');
  const times = [];
  let before = performance.now();
  for (let n = 0; n < turns; n++) {
    chart.scrollTop += 400;
    if (n % 3 === 0) chart.dispatchEvent(new WheelEvent('wheel',
      {deltaY: n % 2 ? 120 : -120, ctrlKey: true, clientX: 700, clientY: 300, bubbles: true, cancelable: true}));
    await new Promise(requestAnimationFrame);
    times.push(performance.now() - before);
    before = performance.now();
  }
  return times.sort((a, b) => a - b);
}"""


@pytest.fixture(scope="module")
def jobs_on_timeline(service: RunningService) -> Iterator[dict[str, str]]:
    """Ended, running, sharing and pending jobs, and a maintenance window in eight hours."""
    quick = service.submit(name="quick", gpus=1, command="true")
    fails = service.submit(name="fails", gpus=1, command="exit 3")
    service.wait(quick)
    service.wait(fails)
    jobs = {
        "quick": quick,
        "train": service.submit(name="train", gpus=4, estimate="50m", command="sleep 3000"),
        "evil": service.submit(name=HTML_NAME, gpus=8, estimate="80m", command="sleep 3000"),
    }
    for name in ("share-a", "share-b"):
        share = {"memory": "10GiB", "sm": "30%"}
        body = {"name": name, "share": share, "estimate": "30m", "command": "sleep 3000", "workdir": str(service.home)}
        jobs[name] = service.client.jobs.submit(body)["jobs"][0]["id"]
    for name in ("train", "evil", "share-a", "share-b"):
        service.wait(jobs[name], "running")
    jobs["waits"] = service.submit(name="waits", gpus=16, estimate="1h", command="true")
    jobs["later"] = service.submit(name="later", gpus=8, estimate="40m", command="true")
    node = service.client.http.get("nodes")["items"][0]["id"]
    start_s = time.time() + 8 * 3600
    window = {"nodes": [node], "start_s": start_s, "end_s": start_s + 7200, "cause": "new driver"}
    service.client.http.post("windows", body=window)
    yield jobs
    unfinished = [job for job in jobs.values() if job not in (quick, fails)]
    for job in unfinished:
        service.client.jobs.cancel(job)
    for job in unfinished:  # so that no process outlives the service
        service.wait(job)


def chart(page: Any) -> Any:
    found = page.get_by_role("application", name="Cards over time")
    expect(found).to_be_visible()
    return found


def test_enter_key_on_a_bar_shows_the_job(page: Any, service: RunningService, jobs_on_timeline: dict[str, str]) -> None:
    log_in(page, service, path="/timeline")
    chart(page).focus()
    announcement = page.locator(STATUS).filter(has_text="to")
    for _ in range(30):
        page.keyboard.press("ArrowUp")
    expect(announcement).to_contain_text("train, running, SIM-")
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary", name="Job")
    expect(panel.get_by_role("heading", name="train")).to_be_visible()
    expect(panel).to_contain_text("based on the owner's estimate")
    assert violations(page) == []
    save_screenshot(page, "timeline")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    page.keyboard.press("Enter")
    panel.get_by_role("link", name="Open job").click()
    expect(page.get_by_role("heading", name="train", level=1)).to_be_visible()


def test_click_on_a_bar_shows_the_job_with_its_name_as_text(
    page: Any, service: RunningService, jobs_on_timeline: dict[str, str]
) -> None:
    log_in(page, service, path="/timeline")
    box = chart(page).bounding_box()
    gutter, axis, node, row = 88, 30, 26, 32
    card = next(p["cards"][0] for p in service.client.jobs.get(jobs_on_timeline["evil"])["placement"])
    top = axis + node + row * int(card.rsplit("-", 1)[1]) + row / 2
    just_ahead_of_now = gutter + (box["width"] - gutter) * 0.4 + 20
    page.mouse.click(box["x"] + just_ahead_of_now, box["y"] + top)
    panel = page.get_by_role("complementary", name="Job")
    expect(panel.get_by_role("heading", name=HTML_NAME)).to_be_visible()
    page.mouse.click(box["x"] + box["width"] * 0.2, box["y"] + top)
    expect(panel).to_be_hidden()


def test_zoom_and_pan_request_other_times(page: Any, service: RunningService, jobs_on_timeline: dict[str, str]) -> None:
    log_in(page, service, path="/timeline")
    chart(page).focus()
    spans = page.get_by_role("group", name="Visible time range")
    expect(spans.get_by_role("button", name="6 h")).to_have_attribute("aria-pressed", "true")
    with page.expect_response("**/api/v1/timeline?*"):
        page.keyboard.press("+")
        page.keyboard.press("+")
        page.keyboard.press("+")
    expect(spans.get_by_role("button", pressed=True)).to_have_count(0)
    box = chart(page).bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 10)
    with page.expect_response("**/api/v1/timeline?*"):
        page.mouse.wheel(0, 2000)
    with page.expect_response("**/api/v1/timeline?*"):
        page.mouse.move(box["x"] + 300, box["y"] + 200)
        page.mouse.down()
        page.mouse.move(box["x"] + 1000, box["y"] + 200, steps=5)
        page.mouse.up()
        page.mouse.move(box["x"] + 300, box["y"] + 200)
        page.mouse.down()
        page.mouse.move(box["x"] + 1000, box["y"] + 200, steps=5)
        page.mouse.up()
    page.get_by_role("button", name="24 h").click()
    expect(spans.get_by_role("button", name="24 h")).to_have_attribute("aria-pressed", "true")
    save_screenshot(page, "timeline-day")


def test_table_has_past_running_and_planned_jobs(
    page: Any, service: RunningService, jobs_on_timeline: dict[str, str]
) -> None:
    log_in(page, service, path="/timeline")
    page.get_by_role("button", name="Table").click()
    for name, state in (("quick", "succeeded"), ("fails", "failed"), ("train", "running"), ("waits", "reserved"),
                       ("later", "planned"), (HTML_NAME, "running")):  # fmt: skip
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))
        expect(row).to_contain_text(state, timeout=20_000)
    assert violations(page) == []
    save_screenshot(page, "timeline-table")


def test_timeline_page_works_dark_in_korean_and_on_a_phone(
    open_page: Callable[..., Any], service: RunningService, jobs_on_timeline: dict[str, str]
) -> None:
    page = open_page(390, 844, has_touch=True, is_mobile=True, color_scheme="dark")
    log_in(page, service, path="/timeline")
    box = chart(page).bounding_box()
    card = next(p["cards"][0] for p in service.client.jobs.get(jobs_on_timeline["train"])["placement"])
    top = 30 + 26 + 32 * int(card.rsplit("-", 1)[1]) + 16
    page.touchscreen.tap(box["x"] + 44 + (box["width"] - 44) * 0.4 + 12, box["y"] + top)
    expect(page.get_by_role("complementary", name="Job")).to_contain_text("train")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    save_screenshot(page, "timeline-phone-dark")
    page.evaluate("window.scrollTo(0, 0)")
    with page.expect_response("**/api/v1/timeline?*"):
        _pinch(page, 195, chart(page).bounding_box()["y"] + 150)
    assert page.evaluate("visualViewport.scale") == 1
    page.evaluate("localStorage.setItem('gpusquad.language', 'ko')")
    page.reload()
    expect(page.get_by_role("heading", name="타임라인", level=1)).to_be_visible()


def test_jobs_of_other_tenants_have_no_names(
    page: Any, service: RunningService, jobs_on_timeline: dict[str, str]
) -> None:
    log_in(page, service, new_user(service, "stranger", tenant="elsewhere"), path="/timeline")
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("row").filter(has_text="another tenant").first).to_be_visible()
    expect(page.get_by_text("train", exact=True)).to_have_count(0)


def test_timeline_of_thousand_cards_stays_smooth(page: Any, service: RunningService) -> None:
    """The routes answer as a service with 125 nodes and 20,000 attempts would."""
    page.route("**/api/v1/nodes", lambda route: route.fulfill(json=_many_nodes(service)))
    page.route("**/api/v1/timeline?*", lambda route: route.fulfill(json=_many_bars()))
    log_in(page, service, path="/timeline")
    page.get_by_role("button", name="24 h").click()
    chart(page)
    page.wait_for_timeout(1000)
    page.evaluate("""() => { window.long = []; new PerformanceObserver((list) =>
        window.long.push(...list.getEntries().map((one) => one.duration))).observe({entryTypes: ['longtask']}) }""")
    page.evaluate(FRAMES, 60)
    longest = record_figure(
        "timeline of 1,000 cards and 20,000 attempts: longest task, ms", max(page.evaluate("window.long"), default=0.0)
    )
    save_screenshot(page, "timeline-thousand")
    assert longest < LONGEST_TASK_MS


def _pinch(page: Any, x: float, y: float) -> None:
    """Zoom in with two fingers."""
    touch = page.context.new_cdp_session(page)
    for kind, distance in (
        ("touchStart", 20),
        *(("touchMove", distance) for distance in range(30, 110, 10)),
        ("touchEnd", 0),
    ):
        points = [{"x": x - distance, "y": y, "id": 0}, {"x": x + distance, "y": y, "id": 1}] if distance else []
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def _many_nodes(service: RunningService) -> dict[str, Any]:
    template = service.client.http.get("nodes")["items"][0]
    card = {**template["cards"][0], "jobs": [], "sample": None}
    nodes = [
        {**template, "id": f"node{n:03}", "cards": [{**card, "id": f"node{n:03}/{k}", "index": k} for k in range(8)]}
        for n in range(125)
    ]
    return json.loads(json.dumps({"items": nodes, "next": None}))


def _many_bars() -> dict[str, Any]:
    now_s = time.time()
    states = ("succeeded", "succeeded", "failed", "cancelled")
    bars = []
    for n in range(20_000):
        card, attempt_number = n % 1000, n // 1000
        start_s = now_s - 86_400 + attempt_number * 4300 + (card * 37) % 900
        has_ended = attempt_number < 19
        bars.append({
            "job": f"{n:026}", "name": f"job-{n}", "tenant": "default", "user": "ann", "attempt": 0,
            "cards": [f"node{card // 8:03}/{card % 8}"], "start_s": start_s,
            "end_s": start_s + 3300 if has_ended else None,
            "state": states[n % 4] if has_ended else "running", "share_ratio": 1.0,
            "expected": None if has_ended else {"mid_s": now_s + 1800, "high_s": now_s + 5400, "source": "history"},
        })  # fmt: skip
    return {"now_s": now_s, "from_s": now_s - 2 * 86_400, "to_s": now_s + 86_400, "bars": bars, "truncated": False,
            "reservations": [], "planned": [], "planned_at_s": now_s, "planned_unknown": 0, "windows": []}  # fmt: skip
