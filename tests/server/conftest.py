"""Fixtures of the API's tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpusquad.store.database import Database
from tests.server.rig import Rig


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with its schema, to be copied."""
    path = tmp_path_factory.mktemp("store") / "empty.db"
    database = Database(path)
    database.migrate()
    database.close()
    return path


@pytest.fixture
def make_rig(tmp_path: Path, empty_store: Path) -> Iterator[Callable[..., Rig]]:
    """An API over a store of its own, with other limits where given."""
    opened: list[Database] = []

    def make(**options: Any) -> Rig:
        path = tmp_path / f"{len(opened)}.db"
        shutil.copyfile(empty_store, path)
        database = Database(path)
        opened.append(database)
        return Rig(tmp_path, database, **options)

    yield make
    for database in opened:
        database.close()


@pytest.fixture(scope="module")
def shared_rig(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Iterator[Rig]:
    """One for all tests of a file that leave it fit for the others: making an app takes a while."""
    home = tmp_path_factory.mktemp("home")
    shutil.copyfile(empty_store, home / "shared.db")
    database = Database(home / "shared.db")
    yield Rig(home, database)
    database.close()


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig()
