"""The library and the stand-in driver, built once; a card's region and tenants on it for each test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpusquad.gpu import build
from gpusquad.gpu.region.card_region import CardRegion
from tests.gpu.shim.tenants import Card
from tests.gpu.standin.build import build as build_standin


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    return tmp_path_factory.mktemp("built")


@pytest.fixture(scope="session")
def library(built: Path) -> Path:
    return build.library(built / "shim")


@pytest.fixture(scope="session")
def driver(built: Path) -> Path:
    """The folder of ``libcuda.so.1`` and NVML: the stand-in's, or what ``$GPUSQUAD_TEST_DRIVER`` names."""
    real = os.environ.get("GPUSQUAD_TEST_DRIVER")
    return Path(real) if real else build_standin(built / "driver")


@pytest.fixture
def card(tmp_path: Path, library: Path, driver: Path) -> Iterator[Card]:
    region = CardRegion(tmp_path / "region", reclaim=build.reclaimer(library))
    environment = {
        "PATH": os.environ["PATH"],
        "LD_PRELOAD": str(library),
        "LD_LIBRARY_PATH": str(driver),
        "STANDIN_CARD": str(tmp_path / "card"),
    }
    made = Card(region, environment)
    yield made
    made.close()
    region.close()
