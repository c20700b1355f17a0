"""The commands of the interference page work without a GPU and without a service."""

import shutil
import sqlite3
from pathlib import Path

from gpusquad.cli.measure import measure
from gpusquad.measure.workloads import CATALOGUE
from tests.docs.page_runner import missing, run_page
from tests.docs.pages import GUIDE, REPOSITORY

PAGE = GUIDE / "interference.md"


def test_interference_commands_print_what_is_shown(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    with sqlite3.connect(home / "gpusquad.db") as empty:  # run_page replaces job IDs, which it reads from a store
        empty.execute("CREATE TABLE jobs (id TEXT)")
    shutil.copytree(REPOSITORY / "examples", work / "examples")
    seen = 0
    for result in run_page(PAGE, home, work):
        seen += 1
        where = f"{PAGE.name}:{result.command.line}: $ {result.command.text}\n{result.output}"
        assert result.code == 0, where
        assert (line := missing(result.command.shown, result.output, home)) is None, f"{where}\nmissing: {line}"
    assert seen == 5


def test_interference_page_lists_every_workload_and_option() -> None:
    text = PAGE.read_text("utf-8")
    assert [name for name in CATALOGUE if f"`{name}`" not in text] == []
    options = [name for param in _params() for name in param.opts if name != "--help"]
    assert [name for name in options if name not in text] == []


def _params() -> list:
    from typer.main import get_command

    return get_command(measure).params
