"""``gpusquad top``, live."""

import asyncio
import json

import pytest

from gpusquad.cli._service import connect

pytest.importorskip("textual")

from textual.widgets import DataTable, Static

from gpusquad.cli._top_live import Top
from gpusquad.cli._top_screens import Confirm, MessageScreen


def live(act) -> None:
    """Runs the view without a terminal, lets ``act`` press keys."""

    async def run() -> None:
        app = Top(connect, 3600.0)
        async with app.run_test(size=(120, 40)) as pilot:
            await settled(app, pilot)
            await act(app, pilot)

    asyncio.run(run())


async def settled(app, pilot) -> None:
    await app.workers.wait_for_complete()
    await pilot.pause()


async def press(app, pilot, *keys: str) -> None:
    await pilot.press(*keys)
    await settled(app, pilot)


def test_cards_and_jobs(service):
    async def act(app, pilot):
        assert app.query_one("#cards", DataTable).row_count == 32
        assert app.query_one("#jobs", DataTable).row_count == 6
        assert "32: 11 free" in str(app.query_one("#summary", Static).render())

    live(act)


def test_why(service):
    async def act(app, pilot):
        await press(app, pilot, "down", "down", "down", "w")
        assert isinstance(app.screen, MessageScreen)
        await press(app, pilot, "escape")
        assert not isinstance(app.screen, MessageScreen)

    live(act)


@pytest.mark.parametrize(("answer", "count"), [("n", 0), ("escape", 0), ("y", 1)])
def test_cancelling_asks_first(service, answer, count):
    path = "/jobs/01jcp6m8qwz4t7y2k90001bxdf/cancel"
    service.set_answers("POST", path, service.answers["GET", "/jobs/01jcp6m8qwz4t7y2k90001bxdf"][0])

    async def act(app, pilot):
        await press(app, pilot, "c")
        assert isinstance(app.screen, Confirm)
        await press(app, pilot, answer)
        assert not isinstance(app.screen, Confirm)

    live(act)
    assert len(service.requests_to("POST", path)) == count


def test_holding_and_a_refusal(service):
    service.fail("POST", "/jobs/01jcp6m8qwz4t7y2k90001bxdf/hold", 409, "conflict", "it runs [red]already")

    async def act(app, pilot):
        await press(app, pilot, "h")
        assert app.is_running

    live(act)
    assert len(service.requests_to("POST", "/jobs/01jcp6m8qwz4t7y2k90001bxdf/hold")) == 1


def test_the_cursor_stays_on_its_job(service):
    async def act(app, pilot):
        await press(app, pilot, "down", "down", "down")
        queue = service.answers["GET", "/queue"][0].body
        service.set_answers("GET", "/queue", queue | {"running": queue["running"][1:]})
        app.refresh_view()
        await settled(app, pilot)
        table = app.query_one("#jobs", DataTable)
        assert table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value == "01jcp6m8qwz4t7y2k90004bxdf"

    live(act)


def test_a_service_that_goes_away(service):
    async def act(app, pilot):
        service.fail("GET", "/cluster", 403, "forbidden", "no longer")
        app.refresh_view()
        await settled(app, pilot)
        assert "no longer" in str(app.query_one("#note", Static).render())
        assert app.query_one("#jobs", DataTable).row_count == 6

    live(act)


def test_an_empty_cluster(service):
    service.set_answers("GET", "/nodes", {"items": [], "next": None})
    service.set_answers("GET", "/queue", {"items": [], "running": [], "counts": {}, "next": None})

    async def act(app, pilot):
        await press(app, pilot, "w", "c", "h", "r", "tab", "down")
        assert app.is_running

    live(act)


def test_once_and_as_json(service, gsq):
    assert "mode predictive" in gsq("top").stdout
    assert json.loads(gsq("top", "--json").stdout).keys() == {"cluster", "nodes", "queue"}
