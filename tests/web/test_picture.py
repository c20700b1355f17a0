"""The picture in the README is what a visitor sees of a service with some work to do."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from tests.web.browser import ROOT, shoot
from tests.web.visit import log_in

KEPT = ROOT / "docs" / "images" / "dashboard.png"
WIDTH, HEIGHT = 1360, 860
LONG = "sleep 900"
RUNNING = [
    {"name": "finetune-llama", "gpus": 8, "estimate": "2h", "command": LONG},
    {"name": "segment-cells", "gpus": 4, "estimate": "50m", "command": LONG},
    {"name": "serve-search", "share": {"memory": "24GiB", "sm": "40%"}, "estimate": "130m", "command": LONG},
    {"name": "notebook-mina", "share": {"memory": "16GiB", "sm": "20%"}, "estimate": "70m", "command": LONG},
    *({"name": f"sweep-{number}", "gpus": 1, "estimate": f"{25 * number}m", "command": LONG} for number in (1, 2, 3)),
]
WAITING = [
    {"name": "pretrain", "gpus": 16, "estimate": "1h", "command": "true"},
    {"name": "ablation-1", "gpus": 8, "estimate": "40m", "command": "true"},
    {"name": "ablation-2", "gpus": 6, "estimate": "30m", "command": "true"},
]


@pytest.fixture
def at_work(service: RunningService) -> Iterator[RunningService]:
    made = [_submit(service, file) for file in RUNNING]
    for job in made:
        service.wait(job, "running")
    made += [_submit(service, file) for file in WAITING]
    yield service
    for job in made:
        service.client.jobs.cancel(job)


def _submit(service: RunningService, file: dict[str, Any]) -> str:
    return service.client.jobs.submit({"workdir": str(service.home)} | file)["jobs"][0]["id"]


def test_the_picture_in_the_readme(page: Any, at_work: RunningService) -> None:
    """Kept in out/web; to renew the README's, copy it from there."""
    log_in(page, at_work, path="/timeline")
    expect(page.get_by_role("application", name="Cards over time")).to_be_visible()
    page.get_by_role("button", name="Table").click()
    for job in (*RUNNING, *WAITING):  # the plan is made while one looks
        expect(page.get_by_role("row", name=str(job["name"])).first).to_be_visible()
    page.get_by_role("button", name="Chart").click()
    expect(page.get_by_role("application", name="Cards over time")).to_be_visible()
    taken = shoot(page, "dashboard")
    assert size_of(taken) == size_of(KEPT) == (WIDTH, HEIGHT)
    assert "docs/images/dashboard.png" in (ROOT / "README.md").read_text("utf-8")


def size_of(picture: Path) -> tuple[int, int]:
    """As its header says."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height
