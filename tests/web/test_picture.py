"""Test of the README's screenshot: the timeline of a service with running and pending jobs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from tests.web.browser import ROOT, save_screenshot
from tests.web.visit import log_in

README_PICTURE = ROOT / "docs" / "images" / "dashboard.png"
WIDTH, HEIGHT = 1360, 860
LONG_COMMAND = "sleep 900"
RUNNING = [
    {"name": "finetune-llama", "gpus": 8, "estimate": "2h", "command": LONG_COMMAND},
    {"name": "segment-cells", "gpus": 4, "estimate": "50m", "command": LONG_COMMAND},
    {"name": "serve-search", "share": {"memory": "24GiB", "sm": "40%"}, "estimate": "130m", "command": LONG_COMMAND},
    {"name": "notebook-mina", "share": {"memory": "16GiB", "sm": "20%"}, "estimate": "70m", "command": LONG_COMMAND},
    *(
        {"name": f"sweep-{number}", "gpus": 1, "estimate": f"{25 * number}m", "command": LONG_COMMAND}
        for number in (1, 2, 3)
    ),
]
PENDING = [
    {"name": "pretrain", "gpus": 16, "estimate": "1h", "command": "true"},
    {"name": "ablation-1", "gpus": 8, "estimate": "40m", "command": "true"},
    {"name": "ablation-2", "gpus": 6, "estimate": "30m", "command": "true"},
]


@pytest.fixture
def busy_service(service: RunningService) -> Iterator[RunningService]:
    job_ids = [_submit(service, file) for file in RUNNING]
    for job in job_ids:
        service.wait(job, "running")
    job_ids += [_submit(service, file) for file in PENDING]
    yield service
    for job in reversed(job_ids):  # the pending ones first: they would start on the freed cards, and end
        service.client.jobs.cancel(job)


def _submit(service: RunningService, file: dict[str, Any]) -> str:
    return service.client.jobs.submit({"workdir": str(service.home)} | file)["jobs"][0]["id"]


def test_readme_screenshot_has_the_size_of_a_new_one(page: Any, busy_service: RunningService) -> None:
    """To renew the README's screenshot, copy it from out/web."""
    log_in(page, busy_service, path="/timeline")
    expect(page.get_by_role("application", name="Cards over time")).to_be_visible()
    page.get_by_role("button", name="Table").click()
    for job in (*RUNNING, *PENDING):  # the plan is computed in the background
        expect(page.get_by_role("row", name=str(job["name"])).first).to_be_visible()
    page.get_by_role("button", name="Chart").click()
    expect(page.get_by_role("application", name="Cards over time")).to_be_visible()
    new_picture = save_screenshot(page, "dashboard")
    assert size_of(new_picture) == size_of(README_PICTURE) == (WIDTH, HEIGHT)
    assert "docs/images/dashboard.png" in (ROOT / "README.md").read_text("utf-8")


def size_of(picture: Path) -> tuple[int, int]:
    """Read width and height from the PNG header."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height
