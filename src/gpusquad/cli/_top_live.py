"""The live view: tables of cards and jobs, and keys that act on the selected job."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.widgets import DataTable, Footer, Static

from gpusquad.cli._answers import heading, reasons_view
from gpusquad.cli._jobs import label, words
from gpusquad.cli._sanitize import one_line
from gpusquad.cli._tables import Cell, TableColumn, cell_of
from gpusquad.cli._top_screens import Confirm, MessageScreen
from gpusquad.cli._views.node import CARDS, card_row
from gpusquad.cli._views.queue import COLUMNS, job_row
from gpusquad.cli._views.top import summary
from gpusquad.cli.top import overview
from gpusquad.client.errors import ApiError

if TYPE_CHECKING:
    from gpusquad.client.client import Client

WIDE = 10_000
"""Width that hides no column, because the tables scroll sideways."""


class Top(App[None]):
    """The live view. Requests run in threads, so that keys react at once."""

    CSS = """
    #summary { height: auto; padding: 0 1; background: $boost; }
    #note { height: 1; padding: 0 1; color: $text-muted; }
    DataTable { height: 1fr; }
    """
    TITLE = "gpusquad"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = [
        ("q", "quit", "Quit"),
        ("w", "why", "Why"),
        ("c", "cancel", "Cancel"),
        ("h", "hold", "Hold"),
        ("r", "release", "Release"),
        ("tab", "focus_next", "Next table"),
    ]

    def __init__(self, connect: Callable[[], Client], interval_s: float) -> None:
        super().__init__()
        self._connect, self._interval_s = connect, interval_s
        self._client = connect()
        self._jobs: dict[str, dict[str, Any]] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="summary")
        yield DataTable(id="cards", cursor_type="row", zebra_stripes=True)
        yield DataTable(id="jobs", cursor_type="row", zebra_stripes=True)
        yield Static(id="note")
        yield Footer()

    def on_mount(self) -> None:
        self._table("cards").add_columns(*(column.head for column in CARDS))
        self._table("jobs").add_columns(*(column.head for column in COLUMNS))
        self._table("jobs").focus()
        self.set_interval(self._interval_s, self.refresh_view)
        self.refresh_view()

    @work(thread=True, exclusive=True, group="refresh_view")
    def refresh_view(self) -> None:
        try:
            answer = overview(self._client)
        except ApiError as error:
            self.call_from_thread(self._show_note, Text(one_line(error), style="red"))
            return
        self.call_from_thread(self.show, answer, self._client.now_s())

    def show(self, answer: dict[str, Any], now_s: float) -> None:
        """Show an answer. The cursor stays on its card and job."""
        self.query_one("#summary", Static).update(summary(answer["cluster"]))
        cards = [(card["id"], card_row(card, True)) for node in answer["nodes"] for card in node["cards"]]
        _fill(self._table("cards"), CARDS, cards)
        queue = answer["queue"]
        jobs = [*queue["running"], *queue["items"]]
        self._jobs = {job["id"]: job for job in jobs}
        _fill(self._table("jobs"), COLUMNS, [(job["id"], job_row(job, now_s, WIDE)) for job in jobs])
        counted = " · ".join(f"{count:,} {words(state)}" for state, count in queue["counts"].items() if count)
        self._show_note(Text(f"{counted or 'no jobs'} · {time.strftime('%H:%M:%S', time.localtime(now_s))}"))

    def action_why(self) -> None:
        self._with_job(self._why)

    def action_hold(self) -> None:
        self._with_job(lambda job: self._act(job, "hold"))

    def action_release(self) -> None:
        self._with_job(lambda job: self._act(job, "release"))

    def action_cancel(self) -> None:
        def ask(job: dict[str, Any]) -> None:
            def go_on(yes: bool | None) -> None:
                if yes:
                    self._act(job, "cancel")

            self.push_screen(Confirm(f"Cancel {label(job)}?"), go_on)

        self._with_job(ask)

    @work(thread=True, group="act")
    def _act(self, job: dict[str, Any], what: str) -> None:
        try:
            with self._connect() as client:
                answer = getattr(client.jobs, what)(job["id"])
        except ApiError as error:
            self.call_from_thread(self.notify, one_line(error), severity="error", markup=False)
            return
        self.call_from_thread(self.notify, f"{label(answer)}: {words(answer['state'])}", markup=False)
        self.call_from_thread(self.refresh_view)

    @work(thread=True, group="act")
    def _why(self, job: dict[str, Any]) -> None:
        try:
            with self._connect() as client:
                answer = client.jobs.why(job["id"])
                now_s = client.now_s()
        except ApiError as error:
            self.call_from_thread(self.notify, one_line(error), severity="error", markup=False)
            return
        reasons = reasons_view(answer["reasons"]) if answer["reasons"] else Text("No blocking reason.")
        self.call_from_thread(self.push_screen, MessageScreen(heading(job, answer["position"], now_s), reasons))

    def _with_job(self, act: Callable[[dict[str, Any]], Any]) -> None:
        table = self._table("jobs")
        if table.row_count and table.is_valid_row_index(table.cursor_row):
            key = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
            if key in self._jobs:
                act(self._jobs[key])

    def _table(self, name: str) -> DataTable:
        return self.query_one(f"#{name}", DataTable)

    def _show_note(self, text: Text) -> None:
        self.query_one("#note", Static).update(text)


def _fill(table: DataTable, columns: Sequence[TableColumn], rows: Sequence[tuple[str, Sequence[Cell]]]) -> None:
    """Replace the rows. Cursor and scroll position stay."""
    chosen = None
    if table.row_count:
        chosen = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value
    x, y = table.scroll_offset
    table.clear()
    for key, cells in rows:
        table.add_row(*(_cell(column, cell) for column, cell in zip(columns, cells, strict=True)), key=key)
    keys = [key for key, _ in rows]
    if chosen in keys:
        table.move_cursor(row=keys.index(chosen), animate=False, scroll=False)
    table.scroll_to(x, y, animate=False)


def _cell(column: TableColumn, cell: Cell) -> Text:
    text = cell_of(cell)
    if column.max_width:
        text.truncate(column.max_width, overflow="ellipsis")
    if column.right:
        text.justify = "right"
    return text
