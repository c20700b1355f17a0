"""Settings and fixtures that every test shares."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.c_builds import *  # noqa: F403 - fixtures
from tests.databases import *  # noqa: F403 - fixtures

# No deadline: a shared machine is slow at times, and a slow example is not a wrong one. The default profile is
# derandomised: every run of a commit tries the same examples and has the same verdict. The thorough one stays random.
settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "thorough", deadline=None, derandomize=False, suppress_health_check=[HealthCheck.too_slow], max_examples=2000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

REPOSITORY = Path(__file__).parents[1]


SLOW_ROOMS = ("e2e", "web", "predict", "bench", "docs", "gpu")
"""Most expensive first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first: a test of a minute that begins last leaves all other cores idle for that minute."""
    ranks = {REPOSITORY / "tests" / room: rank for rank, room in enumerate(SLOW_ROOMS)}
    items.sort(key=lambda item: min((ranks[p] for p in item.path.parents if p in ranks), default=len(ranks)))


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
