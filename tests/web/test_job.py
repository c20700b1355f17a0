"""Tests of the page of one job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import FINAL, RunningService
from tests.web.browser import LONGEST_TASK_MS, record_figure, save_screenshot, violations
from tests.web.visit import log_in, new_user

HTML_NAME = "<img src=x onerror=alert(1)>"
ESCAPES = r"""printf '\033[31mred\033[0m \033]0;title\007plain \033[2J\033[10;10Hend\n'
printf '\033[1;38;5;208mbold\033[0m\n 10%%\r 55%%\r100%%\n<script>alert(1)</script>\n'
sleep 3000"""
PROGRESS_COMMAND = (
    r"for i in $(seq 1 3000); do printf 'step %d/3000 \033[32mloss\033[0m 0.%04d\n' $i $i; sleep 0.5; done"
)
LINES = 30_000
RED = "rgb(255, 143, 134)"


@pytest.fixture(scope="module")
def jobs(service: RunningService) -> Iterator[dict[str, str]]:
    job_ids = {
        "evil": service.submit(name=HTML_NAME, gpus=8, estimate="80m", command=ESCAPES),
        "train": service.submit(name="train", gpus=4, estimate="20m", command=PROGRESS_COMMAND),
    }
    for name in ("share-a", "share-b"):
        share = {"memory": "10GiB", "sm": "30%"}
        body = {"name": name, "share": share, "estimate": "30m", "command": "sleep 3000", "workdir": str(service.home)}
        job_ids[name] = service.client.jobs.submit(body)["jobs"][0]["id"]
    for job in job_ids.values():
        service.wait(job, "running")
    job_ids["waits"] = service.submit(name="waits", gpus=16, estimate="1h", command="true")
    yield job_ids
    unfinished = [job for job in job_ids.values() if service.client.jobs.get(job)["state"] not in FINAL]
    for job in unfinished:
        service.client.jobs.cancel(job)
    for job in unfinished:  # so that no process outlives the service
        service.wait(job)


def log(page: Any) -> Any:
    return page.get_by_role("log")


def section(page: Any, name: str) -> Any:
    return page.get_by_role("region", name=name, exact=True)


def test_running_job_shows_log_progress_story_and_samples(
    page: Any, service: RunningService, jobs: dict[str, str]
) -> None:
    log_in(page, service, path=f"/jobs/{jobs['train']}")
    expect(page.get_by_role("heading", name="train", level=1)).to_be_visible()
    expect(page.get_by_text(re.compile(r"Running for .*Expected to end around"))).to_be_visible()
    expect(log(page)).to_contain_text("step 3/3000", timeout=30_000)
    before = log(page).locator("div > span").count()
    expect(section(page, "Progress")).to_contain_text("of 3,000", timeout=30_000)
    expect(section(page, "Progress").get_by_role("img")).to_be_visible()
    expect(section(page, "Story")).to_contain_text("first in the queue")
    expect(section(page, "Neighbours on its cards")).to_contain_text("No neighbours on its cards.")
    expect(page.locator(".uplot canvas")).to_have_count(3, timeout=30_000)
    expect(section(page, "GPUs during the run")).to_contain_text("SIM-", timeout=30_000)
    assert before > 0
    assert violations(page) == []
    page.wait_for_timeout(6000)  # collect card samples for the screenshot
    save_screenshot(page, "job", full_page=True)


def test_log_escapes_are_coloured_and_html_is_shown_as_text(
    page: Any, service: RunningService, jobs: dict[str, str]
) -> None:
    log_in(page, service, path=f"/jobs/{jobs['evil']}")
    expect(page.get_by_role("heading", name=HTML_NAME, level=1)).to_be_visible()
    expect(log(page)).to_contain_text("red plain end")
    expect(log(page)).to_contain_text("<script>alert(1)</script>")
    expect(log(page)).to_contain_text("100%")
    text = log(page).inner_text()
    assert [removed for removed in ("55%", "title", "\x1b") if removed in text] == []
    assert log(page).get_by_text("red", exact=True).evaluate("(one) => getComputedStyle(one).color") == RED
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("document.title") == f"{HTML_NAME} – gpusquad"
    assert violations(page) == []
    page.get_by_label("Theme").select_option("dark")
    assert violations(page) == []
    save_screenshot(page, "job-escapes-dark")


def test_pending_job_shows_its_reason_and_can_be_changed_and_cancelled(
    page: Any, service: RunningService, jobs: dict[str, str]
) -> None:
    log_in(page, service, path=f"/jobs/{jobs['waits']}")
    expect(section(page, "Why it is pending")).to_contain_text("needs 16 idle cards")
    summary = re.compile(r"Position 1 in the queue. Expected to start around .* Reserved for")
    expect(page.get_by_text(summary)).to_be_visible()
    assert violations(page) == []
    save_screenshot(page, "job-waiting")
    page.get_by_label("Priority").select_option("high")
    expect(page.get_by_role("status").filter(has_text="Priority set to high.")).to_be_visible()
    assert service.client.jobs.get(jobs["waits"])["priority"] == "high"
    page.get_by_role("button", name="Hold").click()
    expect(page.get_by_text("Held: it cannot start until it is released.").first).to_be_visible()
    page.get_by_role("button", name="Release").click()
    expect(page.get_by_role("button", name="Hold")).to_be_visible()
    page.get_by_role("button", name="Cancel job").click()
    dialog = page.get_by_role("dialog", name="Cancel waits?")
    expect(dialog).to_contain_text("loses its position")
    assert violations(page) == []
    dialog.get_by_role("button", name="Keep the job").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Cancel job").click()
    dialog.get_by_role("button", name="Cancel job").click()
    expect(page.get_by_text(re.compile("Ended .* before it started"))).to_be_visible()
    expect(section(page, "Story")).to_contain_text("cancelled by admin")
    assert service.client.jobs.get(jobs["waits"])["state"] == "cancelled"


def test_ended_job_can_be_resubmitted(page: Any, service: RunningService, jobs: dict[str, str]) -> None:
    ended_job = service.submit(name="once", gpus=1, estimate="1m", command="echo done; exit 3")
    service.wait(ended_job)
    log_in(page, service, path=f"/jobs/{ended_job}")
    expect(page.get_by_text(re.compile("Ended .* after"))).to_be_visible()
    expect(section(page, "Details")).to_contain_text("exit code 3")
    expect(log(page)).to_contain_text("done")
    expect(page.get_by_role("button", name="Cancel job")).to_have_count(0)
    page.get_by_role("button", name="Resubmit").click()
    expect(page.get_by_role("status").filter(has_text="Resubmitted")).to_be_visible()
    expect(page).not_to_have_url(re.compile(ended_job))
    again = page.url.rsplit("/", 1)[1]
    assert service.wait(again)["name"] == "once"


def test_neighbours_on_a_shared_card_are_shown(page: Any, service: RunningService, jobs: dict[str, str]) -> None:
    log_in(page, service, path=f"/jobs/{jobs['share-a']}")
    neighbours = section(page, "Neighbours on its cards")
    expect(neighbours.get_by_role("link", name="share-b")).to_be_visible()
    expect(neighbours).to_contain_text("30% SM, 10 GiB")
    assert violations(page) == []
    save_screenshot(page, "job-neighbours")


def test_long_log_stays_smooth_and_is_followed(page: Any, service: RunningService) -> None:
    command = f"seq -f 'line %.0f' 1 {LINES}; sleep 2; echo the-last-line; sleep 1"
    job = service.submit(name="long", gpus=1, estimate="1m", command=command)
    service.wait(job, "running")
    page.add_init_script("""window.long = []; new PerformanceObserver((list) =>
        window.long.push(...list.getEntries().map((one) => one.duration))).observe({entryTypes: ['longtask']})""")
    log_in(page, service, path=f"/jobs/{job}")
    expect(log(page)).to_contain_text("the-last-line", timeout=60_000)
    page.evaluate("window.long = []")  # page load is measured elsewhere
    section(page, "Log").get_by_role("button", name="From the first line").click()
    expect(section(page, "Log")).to_contain_text(f"{LINES + 1:,} lines", timeout=60_000)
    expect(log(page)).to_contain_text("the-last-line")
    follow = page.get_by_role("button", name="Follow")
    expect(follow).to_have_attribute("aria-pressed", "true")
    log(page).evaluate("(one) => { one.scrollTop = 0 }")
    expect(log(page)).to_contain_text("line 1")
    expect(follow).to_have_attribute("aria-pressed", "false")
    assert log(page).locator("div > div").count() < 100
    longest = record_figure(f"log of {LINES:,} lines: longest task, ms", max(page.evaluate("window.long"), default=0.0))
    assert longest < LONGEST_TASK_MS


def test_viewer_cannot_act_and_other_tenants_cannot_see(
    open_page: Callable[..., Any], service: RunningService, jobs: dict[str, str]
) -> None:
    page = open_page()
    log_in(page, service, new_user(service, "looker", role="viewer"), path=f"/jobs/{jobs['train']}")
    expect(page.get_by_text("Only the owner and administrators can read the log.")).to_be_visible()
    for name in ("Cancel job", "Resubmit", "Hold"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    other = open_page()
    other.page_errors.expected.append("404")
    log_in(other, service, new_user(service, "stranger", tenant="elsewhere"), path=f"/jobs/{jobs['train']}")
    expect(other.get_by_role("alert")).to_be_visible()
    expect(other.get_by_text("train", exact=True)).to_have_count(0)


def test_job_page_works_on_a_phone_and_in_korean(
    open_page: Callable[..., Any], service: RunningService, jobs: dict[str, str]
) -> None:
    page = open_page(390, 844, has_touch=True, is_mobile=True, color_scheme="dark")
    log_in(page, service, path=f"/jobs/{jobs['train']}")
    expect(log(page)).to_contain_text("loss")
    expect(page.locator(".uplot canvas")).to_have_count(3, timeout=30_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    save_screenshot(page, "job-phone-dark", full_page=True)
    page.evaluate("localStorage.setItem('gpusquad.language', 'ko')")
    page.reload()
    expect(page.get_by_role("region", name="로그", exact=True)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_automatic_requests_are_shown_beside_what_was_used(page: Any, service: RunningService) -> None:
    expect_by = {"by": """echo '{"cpu": 1, "host_memory": "300MiB"}'"""}
    job_id = service.submit(name="open", gpus=0, cpu="auto", memory="auto", expect=expect_by, command="true")
    service.wait(job_id)
    log_in(page, service, path=f"/jobs/{job_id}")
    table = page.get_by_role("group", name="Automatic requests")
    row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name="memory", exact=True))
    expect(row).to_contain_text("384MiB")
    expect(row).to_contain_text("offline estimate")
    expect(page.get_by_text("host_memory: 300MiB")).to_be_visible()
    assert violations(page) == []
    save_screenshot(page, "job-auto")


def test_job_page_shows_the_notices_of_the_inbox_without_any_rule(page: Any, service: RunningService) -> None:
    job_id, other = (service.submit(name=name, gpus=0, command="exit 3") for name in ("noted", "other"))
    for job in (job_id, other):
        service.wait(job)
    log_in(page, service, path=f"/jobs/{job_id}")
    notices = section(page, "Notices")
    expect(notices).to_contain_text("noted has failed")
    expect(notices).to_contain_text("exit code 3")
    expect(notices).not_to_contain_text("other has failed")
    expect(notices).not_to_contain_text("No notices for you")
    assert violations(page) == []
