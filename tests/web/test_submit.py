"""Tests of the submit page: form, YAML editor and plan preview."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from tests.web.browser import save_screenshot, violations
from tests.web.visit import log_in, new_user


def _open(page: Any, service: RunningService, token: str = "") -> None:
    log_in(page, service, token, path="/submit")
    expect(page.get_by_role("heading", name="Submit", level=1)).to_be_visible()


def _plan(page: Any) -> Any:
    return page.get_by_role("region", name="Plan")


def _write(page: Any, text: str) -> None:
    page.get_by_role("textbox", name="Job file in YAML").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def test_form_shows_the_plan_and_submits_the_job(page: Any, service: RunningService) -> None:
    _open(page, service)
    page.get_by_label("Name", exact=True).fill("from-the-form")
    page.get_by_label("Command").fill("sleep 300")
    page.get_by_label("GPUs per task").fill("4")
    page.get_by_label("Working directory").locator("xpath=ancestor::details").locator("summary").click()
    page.get_by_label("Working directory").fill(str(service.home))
    expect(page.get_by_role("textbox", name="Job file in YAML")).to_contain_text("gpus: 4")
    expect(_plan(page)).to_contain_text("Starts immediately")
    expect(_plan(page)).to_contain_text("GPUs requested: 4; free: 16 of 16.")
    expect(_plan(page)).to_contain_text("SIM-3")
    assert violations(page) == []
    page.evaluate("window.scrollTo(0, 0)")
    save_screenshot(page, "submit")
    page.get_by_role("button", name="Submit").click()
    link = page.get_by_role("link", name="from-the-form")
    expect(link).to_have_attribute("href", re.compile("^/jobs/[0-9a-z]{26}$"))
    job = str(link.get_attribute("href")).removeprefix("/jobs/")
    service.wait(job, "running")
    assert service.client.jobs.get(job)["gpus"] == 4
    expect(_plan(page)).to_contain_text("free: 12 of 16", timeout=15_000)
    service.client.jobs.cancel(job)


def test_plan_shows_start_and_reason_of_a_job_that_must_wait(page: Any, service: RunningService) -> None:
    blocking = service.submit(name="before", gpus=16, command="sleep 600", estimate="10m")
    service.wait(blocking, "running")
    _open(page, service)
    page.get_by_label("GPUs per task").fill("8")
    expect(_plan(page)).to_contain_text(re.compile("Starts in about (10m|9m)"))
    expect(_plan(page)).to_contain_text("needs 8 idle cards, 0 are idle")
    save_screenshot(page, "submit-waits")
    service.client.jobs.cancel(blocking)


def test_errors_are_shown_at_their_fields(page: Any, service: RunningService) -> None:
    _open(page, service)
    gpus = page.get_by_label("GPUs per task")
    gpus.fill("some")
    expect(gpus).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    gpus.fill("400")
    expect(_plan(page)).to_contain_text("the largest node has 16")
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    gpus.fill("1")
    page.page_errors.expected.append("422")  # errors that only the service detects
    page.get_by_label("Command").fill("echo ${who}")
    expect(page.get_by_label("Command")).to_have_attribute("aria-invalid", "true")
    assert violations(page) == []
    save_screenshot(page, "submit-errors")


def test_yaml_is_completed_and_checked_by_the_schema(page: Any, service: RunningService) -> None:
    _open(page, service)
    _write(page, "name: typed\ngpus: 1\ncommand: sleep 1\nprio")
    page.keyboard.type("r")
    options = page.get_by_role("listbox", name="Completions")
    expect(options).to_contain_text("priority")
    expect(page.get_by_text("Priority class.")).to_be_visible()
    page.wait_for_timeout(200)  # the editor ignores Enter shortly after the list changed
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Job file in YAML")).to_contain_text("priority:")
    page.keyboard.press("Control+Space")
    expect(options).to_contain_text("urgent")
    save_screenshot(page, "submit-completion")
    page.keyboard.press("Escape")
    page.keyboard.type("top\nqueu: a")
    expect(page.get_by_text("priority: must be one of: low, normal, high, urgent")).to_be_visible()
    expect(page.get_by_text("queu: is not a field of a job file. Similar: queue")).to_be_visible()
    expect(_plan(page)).to_contain_text("Fix the job file first. Problems: 2.")


def test_sweep_with_parameters_submits_several_jobs(page: Any, service: RunningService) -> None:
    _open(page, service)
    folder = service.home
    _write(page, f"name: swept\ngpus: 1\nworkdir: {folder}\nparams: {{word: null}}\nsweep: {{n: [1, 2, 3]}}\n"
                 "command: echo ${word} ${n}\n")  # fmt: skip
    page.page_errors.expected.append("422")
    page.get_by_label("word").fill("hello")
    expect(_plan(page)).to_contain_text("3 jobs")
    page.get_by_role("button", name="Submit").click()
    links = page.get_by_role("status").get_by_role("link", name="swept")
    expect(links).to_have_count(3)
    job = service.wait(str(links.first.get_attribute("href")).removeprefix("/jobs/"))
    assert service.text(job["id"]).startswith("hello ")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_form_is_shown_first_on_a_phone(open_page: Callable[..., Any], service: RunningService, theme: str) -> None:
    page = open_page(390, 844, has_touch=True, is_mobile=True, color_scheme=theme)
    _open(page, service)
    expect(_plan(page)).to_contain_text("Starts immediately")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    save_screenshot(page, f"submit-phone-{theme}", full_page=True)
    page.get_by_role("button", name="YAML").click()
    expect(page.get_by_role("textbox", name="Job file in YAML")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    save_screenshot(page, f"submit-phone-yaml-{theme}", full_page=True)


def test_viewer_cannot_submit(page: Any, service: RunningService) -> None:
    log_in(page, service, new_user(service, "only-looks", role="viewer"), path="/submit")
    expect(page.get_by_text("cannot submit jobs")).to_be_visible()
    expect(page.get_by_role("button", name="Submit")).to_have_count(0)


def test_refused_priority_is_shown_with_its_cure(page: Any, service: RunningService) -> None:
    page.page_errors.expected.append("403")
    _open(page, service, new_user(service, "hasty"))
    _write(page, "version: 1\nname: hasty\ncommand: sleep 1\ngpus: 1\npriority: urgent\n")
    expect(page.get_by_text("urgent is above your maximum, which is normal").first).to_be_visible()
    expect(page.get_by_text("gpusquad user set hasty --max-priority urgent").first).to_be_visible()
