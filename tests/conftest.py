"""Settings and fixtures that every test shares."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.databases import *  # noqa: F403 - fixtures

# No deadline: a shared machine is slow at times, and a slow example is not a wrong one.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", parent=settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of this repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Public traces that lie beside the repository: too large to be part of it."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no public traces at {folder}")
    return folder
