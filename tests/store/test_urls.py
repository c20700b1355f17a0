"""Tests for database URLs."""

from pathlib import Path

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.store.database import Database, StoreUnavailable
from gpusquad.store.urls import parse


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_urls_use_psycopg(scheme):
    assert str(parse(f"{scheme}://ada@db/jobs")) == "postgresql+psycopg://ada@db/jobs"


def test_path_is_parsed_as_a_sqlite_file(tmp_path):
    path_with_special_characters = tmp_path / "100% odd?name#.db"
    assert parse(path_with_special_characters).database == str(path_with_special_characters)
    database = Database(path_with_special_characters)
    database.migrate()
    database.close()
    assert path_with_special_characters.exists()


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
def test_unsupported_url_is_refused_with_a_cure(url):
    with pytest.raises(Invalid, match=r"database: .*sqlite:///FILE"):
        parse(url)


def test_password_is_not_shown():
    database = Database("postgresql://ada:swordfish@db/jobs")
    assert "swordfish" not in database.url + repr(database)


def test_missing_folder_is_reported_as_unavailable(tmp_path):
    with pytest.raises(StoreUnavailable, match="No such file"):
        Database(tmp_path / "nowhere" / "gpusquad.db")


def test_sqlite_files_are_readable_only_by_the_owner(tmp_path):
    path = Path(tmp_path / "gpusquad.db")
    database = Database(path)
    database.migrate()
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    database.close()
    assert modes == dict.fromkeys(("gpusquad.db", "gpusquad.db-wal", "gpusquad.db-shm"), 0o600)
