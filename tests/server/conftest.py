"""Fixtures of the API's tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpusquad.store.database import Database
from tests.databases import sqlite_schema
from tests.server.rig import Rig


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with its schema, to be copied."""
    path = tmp_path_factory.mktemp("store") / "empty.db"
    path.write_bytes(sqlite_schema())
    return path


@pytest.fixture
def make_rig(tmp_path: Path, sqlite_folder: Path, empty_store: Path) -> Iterator[Callable[..., Rig]]:
    """Create an API with its own store and the given options."""
    opened: list[Database] = []

    def make(**options: Any) -> Rig:
        path = sqlite_folder / f"{len(opened)}.db"
        shutil.copyfile(empty_store, path)
        database = Database(path)
        opened.append(database)
        return Rig(tmp_path, database, **options)

    yield make
    for database in opened:
        database.close()


@pytest.fixture(scope="module")
def shared_rig(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Iterator[Rig]:
    """One API for all tests of a file that do not disturb each other, because creating an app is slow."""
    home = tmp_path_factory.mktemp("home")
    shutil.copyfile(empty_store, home / "shared.db")
    database = Database(home / "shared.db")
    yield Rig(home, database)
    database.close()


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig()
