from pathlib import Path

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.store.database import Database, StoreUnavailable
from gpusquad.store.urls import parse


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_is_reached_by_psycopg(scheme):
    assert str(parse(f"{scheme}://ada@db/jobs")) == "postgresql+psycopg://ada@db/jobs"


def test_a_path_is_a_sqlite_file(tmp_path):
    odd = tmp_path / "100% odd?name#.db"
    assert parse(odd).database == str(odd)
    database = Database(odd)
    database.migrate()
    database.close()
    assert odd.exists()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "mysql://db/jobs",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///a.db?mode=ro",
        "postgresql://h:x/",
    ],
)
def test_other_urls_are_refused_with_a_cure(url):
    with pytest.raises(Invalid, match=r"database: .*sqlite:///FILE"):
        parse(url)


def test_the_password_is_not_shown():
    database = Database("postgresql://ada:swordfish@db/jobs")
    assert "swordfish" not in database.url + repr(database)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(StoreUnavailable, match="No such file"):
        Database(tmp_path / "nowhere" / "gpusquad.db")


def test_nobody_else_may_read_the_file(tmp_path):
    path = Path(tmp_path / "gpusquad.db")
    database = Database(path)
    database.migrate()
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    database.close()
    assert modes == dict.fromkeys(("gpusquad.db", "gpusquad.db-wal", "gpusquad.db-shm"), 0o600)
