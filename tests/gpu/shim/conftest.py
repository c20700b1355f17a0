"""The shim and the stand-in driver, built once; a card's region and its clients for each test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpusquad.gpu import build
from gpusquad.gpu.region.card_region import CardRegion
from tests.gpu.shim.clients import REAL_DRIVER, Card
from tests.gpu.standin.build import build as build_standin
from tests.gpu.standin.build import locked


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    return tmp_path_factory.mktemp("built")


@pytest.fixture(scope="session")
def library(built: Path, c_builds: Path) -> Path:
    with locked(c_builds / "shim"):
        return build.library(c_builds / "shim")


@pytest.fixture(scope="session")
def driver(built: Path, c_builds: Path) -> Path:
    """A folder with ``libcuda.so.1`` and NVML: the stand-in, or links to those in ``$GPUSQUAD_TEST_DRIVER``, a folder
    with many other libraries."""
    if not REAL_DRIVER:
        return build_standin(c_builds / "driver")
    links = built / "real-driver"
    links.mkdir()
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (links / name).symlink_to(Path(REAL_DRIVER).resolve() / name)
    return links


def kept() -> dict[str, str]:
    """Variables to keep: a real driver stores compiled code in the user's home, and ``CUDA_*`` may select a card."""
    names = [name for name in os.environ if name == "HOME" or name.startswith("CUDA_")] if REAL_DRIVER else []
    return {name: os.environ[name] for name in ["PATH", *names]}


@pytest.fixture
def card(tmp_path: Path, library: Path, driver: Path) -> Iterator[Card]:
    region = CardRegion(tmp_path / "region", reclaim=build.reclaimer(library))
    environment = {
        **kept(),
        "LD_PRELOAD": str(library),
        "LD_LIBRARY_PATH": str(driver),
        "STANDIN_CARD": str(tmp_path / "card"),
    }
    made = Card(region, environment)
    yield made
    made.close()
    region.close()
