"""Tests that the local engine meets the contract of engines."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gpusquad.engines.local.engine import LocalEngine
from tests.engines.contract import EngineContract


class TestLocalEngine(EngineContract):
    @pytest.fixture
    def make_engine(self, tmp_path: Path) -> Callable:
        return partial(LocalEngine, tmp_path / "home")
