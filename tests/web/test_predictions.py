"""Tests of the page that compares predictions with actual run times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.running import RunningService
from gpusquad.model.prediction import LEVELS
from gpusquad.model.units import US_PER_S
from gpusquad.store import promises, run_forecasts, start_forecasts
from gpusquad.store.database import Database
from gpusquad.store.promises import PromiseRow
from gpusquad.store.run_forecasts import RunForecastRow
from gpusquad.store.start_forecasts import StartForecastRow
from tests.web.browser import save_screenshot, violations
from tests.web.visit import log_in, new_user

DAY_US = 86_400 * US_PER_S


@pytest.fixture(scope="module")
def recorded(service: RunningService) -> RunningService:
    """Service with twenty days of runs of two tenants. User estimates are much too long, predictions are closer."""
    for tenant in ("vision", "speech"):
        service.client.http.post("tenants", body={"name": tenant})
    random, now_us = Random(1), int(time.time() * US_PER_S)
    rows = [_row(number, random, now_us - random.randrange(20 * DAY_US)) for number in range(600)]
    database = Database(service.home / "gpusquad.db")
    with database.write() as c:
        run_forecasts.add(c, rows)
        for number in range(40):
            promises.add(c, _promise(number, now_us - number * DAY_US // 4))
    database.close()
    return service


def _promise(number: int, started_us: int) -> PromiseRow:
    """Of tenant vision: most are kept, two are late for a guest of tenant speech, one for a job ahead."""
    late_s = {3: 300, 7: 5400, 11: 60}.get(number, -120)
    row = PromiseRow(f"p{number}", 0, "vision", "ana", f"train-{number}", 0, started_us - late_s * US_PER_S, started_us,
                     max(0, late_s - 60) * US_PER_S)  # fmt: skip
    if number in (3, 7):
        return replace(row, cause="guest_overstayed", cause_job="guest01", cause_user="bo", cause_tenant="speech")
    return replace(row, cause="ahead_overran") if number == 11 else row


def _row(number: int, random: Random, settled_us: int) -> RunForecastRow:
    source = random.choice(("user", "history", "history"))
    actual_s = random.lognormvariate(6.5, 1.6)
    error_factor = random.lognormvariate(1.1, 0.7) if source == "user" else random.lognormvariate(0, 0.35)
    values = [max(1, round(actual_s * error_factor * (0.45 + 1.1 * level) * US_PER_S)) for level in LEVELS]
    result = "cancelled" if random.random() < 0.05 else "succeeded"
    tenant, actual_us = random.choice(("vision", "speech")), round(actual_s * US_PER_S)
    return RunForecastRow(f"job{number}", 1, settled_us - 1, tenant, "a", source, 0.5, None, actual_us, result,
                          settled_us, levels=list(LEVELS), values_us=values)  # fmt: skip


def _open(page: Any, service: RunningService, token: str = "") -> None:
    log_in(page, service, token, path="/predictions")
    expect(page.get_by_role("heading", name="Predictions", level=1)).to_be_visible()


def test_predictions_are_drawn_against_actual_run_times(page: Any, recorded: RunningService) -> None:
    _open(page, recorded)
    rows = page.get_by_role("group", name="Error by tenant and source").get_by_role("row")
    expect(rows).to_have_count(5)  # the header, and two tenants by two sources
    expect(page.locator("canvas")).to_have_count(3)
    expect(page.get_by_text("Runs with a prediction").locator("..")).to_contain_text("600")
    expect(page.get_by_role("region", name="Predicted and actual run time")).to_contain_text("history")
    opaque_pixels = page.evaluate(
        """() => [...document.querySelectorAll('canvas')].map((one) => {
            const data = one.getContext('2d').getImageData(0, 0, one.width, one.height).data;
            return data.filter((value, at) => at % 4 === 3 && value > 0).length;
        })"""
    )
    assert min(opaque_pixels) > 1000, opaque_pixels
    assert violations(page) == []
    save_screenshot(page, "predictions", full_page=True)


def test_promised_starts_are_shown_with_what_delayed_them(page: Any, recorded: RunningService) -> None:
    _open(page, recorded)
    expect(page.get_by_text("Kept", exact=True).locator("..")).to_contain_text("37")
    latest = page.get_by_role("group", name="Latest starts").get_by_role("row")
    expect(latest).to_have_count(4)
    expect(latest.nth(1)).to_contain_text("train-7")
    expect(latest.nth(1)).to_contain_text("a backfilled job overstayed: guest01 of bo (speech)")
    page.get_by_role("heading", name="Promised starts").scroll_into_view_if_needed()
    save_screenshot(page, "promised-starts", full_page=True)


def test_member_does_not_see_whose_job_of_another_tenant_delayed_theirs(page: Any, recorded: RunningService) -> None:
    _open(page, recorded, new_user(recorded, "val", tenant="vision"))
    latest = page.get_by_role("group", name="Latest starts").get_by_role("row")
    expect(latest.nth(1)).to_contain_text("a backfilled job overstayed")
    expect(page.get_by_text("guest01")).to_have_count(0)


def test_predictions_are_filtered_by_tenant(page: Any, recorded: RunningService) -> None:
    _open(page, recorded)
    rows = page.get_by_role("group", name="Error by tenant and source").get_by_role("row")
    page.get_by_label("Tenant", exact=True).select_option("vision")
    expect(rows).to_have_count(3)
    expect(rows.get_by_role("rowheader")).to_have_text(["vision", "vision"])
    page.get_by_label("Tenant", exact=True).select_option("default")
    expect(page.get_by_text("No run with a prediction ended in this period.")).to_be_visible()


def test_member_sees_only_their_own_tenant(page: Any, recorded: RunningService) -> None:
    _open(page, recorded, new_user(recorded, "vic", tenant="vision"))
    table = page.get_by_role("group", name="Error by tenant and source")
    expect(table.get_by_role("rowheader")).to_have_text(["vision", "vision"])
    expect(page.get_by_label("Tenant", exact=True)).to_have_count(0)


def test_predictions_page_works_dark_on_a_phone(open_page: Callable[..., Any], recorded: RunningService) -> None:
    page = open_page(390, 844, has_touch=True, is_mobile=True, color_scheme="dark")
    _open(page, recorded)
    expect(page.locator("canvas")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    save_screenshot(page, "predictions-phone-dark", full_page=True)


def test_start_forecasts_are_shown_by_tenant(page: Any, recorded: RunningService) -> None:
    now_us = int(time.time() * US_PER_S)
    database = Database(recorded.home / "gpusquad.db")
    with database.write() as c:
        for number, tenant in enumerate(("vision", "vision", "speech", "speech")):
            made_us, late_us = now_us - 3600 * US_PER_S, 300 * number * US_PER_S
            row = StartForecastRow(f"s{number}", tenant, made_us, made_us + 600 * US_PER_S, made_us + 900 * US_PER_S)
            start_forecasts.add(c, [row])
            start_forecasts.settle(c, row.job_id, row.mid_us + late_us)
    database.close()
    _open(page, recorded)
    table = page.get_by_role("group", name="Start forecasts")
    vision = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name="vision", exact=True))
    expect(vision.get_by_role("cell").nth(1)).to_have_text("100%")
    expect(table.get_by_role("row")).to_have_count(4)  # the heading, two tenants, all
    assert violations(page) == []
