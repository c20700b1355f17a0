"""What the page on interference tells people to type works without a GPU and without a service."""

import shutil
import sqlite3
from pathlib import Path

from gpusquad.cli.measure import measure
from gpusquad.measure.workloads import CATALOGUE
from tests.docs.pages import GUIDE, REPOSITORY
from tests.docs.typed import missing, type_page

PAGE = GUIDE / "interference.md"


def test_the_page_works_as_it_stands(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    with sqlite3.connect(home / "gpusquad.db") as empty:  # pages are compared with a service's jobs in mind
        empty.execute("CREATE TABLE jobs (id TEXT)")
    shutil.copytree(REPOSITORY / "examples", work / "examples")
    seen = 0
    for typed in type_page(PAGE, home, work):
        seen += 1
        where = f"{PAGE.name}:{typed.command.line}: $ {typed.command.text}\n{typed.output}"
        assert typed.code == 0, where
        assert (line := missing(typed.command.shown, typed.output, home)) is None, f"{where}\nmissing: {line}"
    assert seen == 5


def test_every_workload_and_option_is_told() -> None:
    text = PAGE.read_text("utf-8")
    assert [name for name in CATALOGUE if f"`{name}`" not in text] == []
    options = [name for param in _params() for name in param.opts if name != "--help"]
    assert [name for name in options if name not in text] == []


def _params() -> list:
    from typer.main import get_command

    return get_command(measure).params
