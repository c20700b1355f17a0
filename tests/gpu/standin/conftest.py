"""Fixtures: the compiled stand-in driver, and cards that use it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.gpu.standin.running import Card, MakeCard, new_card


@pytest.fixture(scope="session")
def builds(c_builds: Path) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    return c_builds / "driver"


@pytest.fixture
def make_card(tmp_path: Path, builds: Path) -> MakeCard:
    return lambda **settings: new_card(tmp_path, builds, **settings)


@pytest.fixture
def card(make_card: MakeCard) -> Card:
    return make_card(mode="mps", speed=4)
