"""The page that submits jobs: by form and by YAML, with the plan before they are sent."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from tests.web.browser import shoot, violations
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


def test_a_form_shows_the_plan_and_sends_the_job(page: Any, service: RunningService) -> None:
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
    shoot(page, "submit")
    page.get_by_role("button", name="Submit").click()
    sent = page.get_by_role("link", name="from-the-form")
    expect(sent).to_have_attribute("href", re.compile("^/jobs/[0-9a-z]{26}$"))
    job = str(sent.get_attribute("href")).removeprefix("/jobs/")
    service.wait(job, "running")
    assert service.client.jobs.get(job)["gpus"] == 4
    expect(_plan(page)).to_contain_text("free: 12 of 16", timeout=15_000)
    service.client.jobs.cancel(job)


def test_a_job_that_has_to_wait_is_told_when_and_why(page: Any, service: RunningService) -> None:
    before = service.submit(name="before", gpus=16, command="sleep 600", estimate="10m")
    service.wait(before, "running")
    _open(page, service)
    page.get_by_label("GPUs per task").fill("8")
    expect(_plan(page)).to_contain_text(re.compile("Starts in about (10m|9m)"))
    expect(_plan(page)).to_contain_text("needs 8 idle cards, 0 are idle")
    shoot(page, "submit-waits")
    service.client.jobs.cancel(before)


def test_errors_stand_at_the_field_they_name(page: Any, service: RunningService) -> None:
    _open(page, service)
    gpus = page.get_by_label("GPUs per task")
    gpus.fill("some")
    expect(gpus).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    gpus.fill("400")
    expect(_plan(page)).to_contain_text("the largest node has 16")
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    gpus.fill("1")
    page.complaints.expected.append("422")  # what only the service knows
    page.get_by_label("Command").fill("echo ${who}")
    expect(page.get_by_label("Command")).to_have_attribute("aria-invalid", "true")
    assert violations(page) == []
    shoot(page, "submit-errors")


def test_yaml_is_completed_and_checked_by_the_schema(page: Any, service: RunningService) -> None:
    _open(page, service)
    _write(page, "name: typed\ngpus: 1\ncommand: sleep 1\nprio")
    page.keyboard.type("r")
    options = page.get_by_role("listbox", name="Completions")
    expect(options).to_contain_text("priority")
    expect(page.get_by_text("Priority class.")).to_be_visible()
    page.wait_for_timeout(200)  # what is taken by mistake while the list changes under the fingers is not taken
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Job file in YAML")).to_contain_text("priority:")
    page.keyboard.press("Control+Space")
    expect(options).to_contain_text("urgent")
    shoot(page, "submit-completion")
    page.keyboard.press("Escape")
    page.keyboard.type("top\nqueu: a")
    expect(page.get_by_text("priority: must be one of: low, normal, high, urgent")).to_be_visible()
    expect(page.get_by_text("queu: is not a field of a job file. Similar: queue")).to_be_visible()
    expect(_plan(page)).to_contain_text("Fix the job file first. Problems: 2.")


def test_a_sweep_with_parameters_makes_many_jobs(page: Any, service: RunningService) -> None:
    _open(page, service)
    folder = service.home
    _write(page, f"name: swept\ngpus: 1\nworkdir: {folder}\nparams: {{word: null}}\nsweep: {{n: [1, 2, 3]}}\n"
                 "command: echo ${word} ${n}\n")  # fmt: skip
    page.complaints.expected.append("422")
    page.get_by_label("word").fill("hello")
    expect(_plan(page)).to_contain_text("3 jobs")
    page.get_by_role("button", name="Submit").click()
    links = page.get_by_role("status").get_by_role("link", name="swept")
    expect(links).to_have_count(3)
    job = service.wait(str(links.first.get_attribute("href")).removeprefix("/jobs/"))
    assert service.text(job["id"]).startswith("hello ")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_a_phone_the_form_comes_first(open_page: Callable[..., Any], service: RunningService, theme: str) -> None:
    page = open_page(390, 844, has_touch=True, is_mobile=True, color_scheme=theme)
    _open(page, service)
    expect(_plan(page)).to_contain_text("Starts immediately")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    shoot(page, f"submit-phone-{theme}", whole=True)
    page.get_by_role("button", name="YAML").click()
    expect(page.get_by_role("textbox", name="Job file in YAML")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    shoot(page, f"submit-phone-yaml-{theme}", whole=True)


def test_a_viewer_cannot_submit(page: Any, service: RunningService) -> None:
    log_in(page, service, new_user(service, "only-looks", role="viewer"), path="/submit")
    expect(page.get_by_text("cannot submit jobs")).to_be_visible()
    expect(page.get_by_role("button", name="Submit")).to_have_count(0)
