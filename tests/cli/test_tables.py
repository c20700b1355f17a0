"""Tables fit the terminal, whatever is in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from gpusquad.cli._tables import PIPE_WIDTH, TableColumn, bar, facts, table

COLUMNS = (
    TableColumn("ID"),
    TableColumn("NAME", max_width=20, min_width=6),
    TableColumn("N", right=True, from_width=60),
    TableColumn("WHY", wraps=True),
)


def rendered(shown, width: int) -> list[str]:
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(shown)
    return capture.get().splitlines()


@given(st.integers(40, 200), st.lists(st.tuples(st.text(max_size=60), st.text(max_size=200)), max_size=4))
def test_no_line_is_wider_than_the_terminal(width, cells):
    lines = rendered(table(COLUMNS, [("12345678", name, "3", why) for name, why in cells], width), width)
    assert all(cell_len(line) <= width for line in lines)
    assert all(line.startswith("12345678") for line in lines[2:] if line[:1].strip())


def test_a_pipe_gets_whole_rows():
    long = "word " * 100
    lines = rendered(table(COLUMNS, [("1", "x" * 50, "3", long)], PIPE_WIDTH), PIPE_WIDTH)
    assert len(lines) == 3
    assert "x" * 50 in lines[2]
    assert long.strip() in lines[2]


@pytest.mark.parametrize(("width", "shown"), [(59, False), (60, True)])
def test_columns_that_need_room(width, shown):
    assert ("N" in rendered(table(COLUMNS, [("1", "a", "3", "b")], width), width)[0].split()) == shown


def test_markup_is_text():
    assert "[red]x[/red]" in rendered(table(COLUMNS, [("1", "[red]x[/red]", "3", "")], 100), 100)[2]
    assert "[bold]y" in rendered(facts([("[b]", "[bold]y")]), 100)[0]


def test_facts_leave_out_what_is_empty():
    assert rendered(facts([("a", ""), ("b", "1")]), 80) == ["  b  1"]


@given(st.floats(-1, 2), st.integers(1, 30))
def test_bars_have_their_width(ratio, width):
    assert len(bar(ratio, width)) == width


def test_a_pipe_gets_the_same_lines_as_a_very_wide_terminal() -> None:
    columns = (TableColumn("#", right=True), TableColumn("NAME"), TableColumn("WHY", wraps=True))
    rows = [("1", "abc", "hello there"), ("12", "日本", "[red]x[/red]")]
    widths = (PIPE_WIDTH, PIPE_WIDTH - 1)
    pipe, terminal = (rendered(table(columns, rows, width), width) for width in widths)
    assert pipe == terminal
