"""Fixtures with a local engine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gpusquad.engines.local.engine import LocalEngine
from tests.engines.harness import Bench


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def bench(home: Path, tmp_path: Path) -> Iterator[Bench]:
    created = Bench(partial(LocalEngine, home), tmp_path)
    yield created
    created.close()
