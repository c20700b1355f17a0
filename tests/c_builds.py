"""Fixture: folder of compiled C sources. Separate, because ``tests.gpu.on_card`` loads no other shared fixture."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

__all__ = ["c_builds"]


@pytest.fixture(scope="session")
def c_builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of compiled C sources, shared by all processes of this test run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "c-builds"
    folder.mkdir(exist_ok=True)
    return folder
