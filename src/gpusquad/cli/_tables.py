"""Tables and lists of facts that adapt to the terminal width. Not imported for JSON output."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from gpusquad.cli._sanitize import one_line

PIPE_WIDTH = 2000
"""Width for pipes. Nothing is truncated or wrapped, so that ``grep`` sees whole rows."""
GAP = 2
"""Spaces between two columns."""
MIN_WRAPPED_WIDTH = 30
"""Width below which wrapped columns shrink only if no other column can."""
Cell = str | Text


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column, and how it adapts to a narrow terminal."""

    head: str
    right: bool = False
    from_width: int = 0
    """Hidden on terminals narrower than this."""
    max_width: int | None = None
    """Maximum width. Longer cells end in an ellipsis."""
    min_width: int | None = None
    """Minimum width if space is short. None: the column never shrinks."""
    wraps: bool = False
    """Shrinks first, and wraps onto several lines."""
    style: str = ""


def console() -> Console:
    """Console for stdout. Width: the terminal, otherwise ``COLUMNS``, otherwise unlimited."""
    out = Console(highlight=False)
    if out.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return out
    return Console(highlight=False, width=PIPE_WIDTH)


class PipeTable:
    """A table for a pipe, without wrapping and colours, rendered without Rich's layout."""

    def __init__(self, columns: Sequence[TableColumn], widths: Sequence[int], rows: Sequence[Sequence[Text]]) -> None:
        self._columns, self._widths, self._rows = columns, widths, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        rule = "─" * (sum(self._widths) + GAP * (len(self._widths) - 1))
        lines = [self._line([Text(column.head) for column in self._columns]), rule, *map(self._line, self._rows)]
        yield Segment("\n".join(lines) + "\n")

    def _line(self, cells: Sequence[Text]) -> str:
        return (" " * GAP).join(map(_padded, cells, self._widths, (column.right for column in self._columns)))


def _padded(cell: Text, width: int, right: bool) -> str:
    blank = " " * (width - cell.cell_len)
    return blank + cell.plain if right else cell.plain + blank


def table(columns: Sequence[TableColumn], rows: Iterable[Sequence[Cell]], width: int) -> Table | PipeTable:
    """A table with sanitised cells."""
    shown = [index for index, column in enumerate(columns) if width >= column.from_width]
    cells = [[cell_of(row[index]) for index in shown] for row in rows]
    chosen = [columns[index] for index in shown]
    if width >= PIPE_WIDTH:
        return PipeTable(chosen, _widths(chosen, cells, width), cells)
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for column, column_width in zip(chosen, _widths(chosen, cells, width), strict=True):
        _add(made, column, column_width)
    for row in cells:
        made.add_row(*row)
    return made


def facts(pairs: Iterable[tuple[str, Cell]]) -> Table:
    """One row per name and value. Empty values are omitted."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value:
            made.add_row(f"  {name}", cell_of(value))
    return made


def cell_of(value: Cell) -> Text:
    """A Rich text. Strings are sanitised and never parsed as markup."""
    return value if isinstance(value, Text) else Text(one_line(value))


def bar(ratio: float, width: int = 10) -> str:
    """``████▌     ``."""
    eighths = round(min(1.0, max(0.0, ratio)) * width * 8)
    whole, part = divmod(eighths, 8)
    return ("█" * whole + (" ▏▎▍▌▋▊▉"[part] if part else "")).ljust(width)


def _widths(columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]], width: int) -> list[int]:
    """Column widths that fit the terminal. Wrapping columns shrink first, then the others that may."""
    bounded = width < PIPE_WIDTH
    widths = []
    for index, column in enumerate(columns):
        needed = max((len(column.head), *(row[index].cell_len for row in rows)))
        widths.append(min(needed, column.max_width) if column.max_width and bounded else needed)
    too_many = sum(widths) + GAP * (len(columns) - 1) - width
    for wrapped_least, wrapping in ((MIN_WRAPPED_WIDTH, True), (None, False), (1, True)):
        for index, column in enumerate(columns):
            least = wrapped_least if column.wraps else column.min_width
            if too_many > 0 and column.wraps == wrapping and least is not None:
                given = min(too_many, max(0, widths[index] - max(least, len(column.head))))
                widths[index] -= given
                too_many -= given
    return widths


def _add(made: Table, column: TableColumn, width: int) -> None:
    made.add_column(
        column.head,
        justify="right" if column.right else "left",
        style=column.style or None,
        no_wrap=not column.wraps,
        overflow="fold" if column.wraps else "ellipsis",
        width=width,
    )
