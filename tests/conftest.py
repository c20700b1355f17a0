"""Settings and fixtures for all tests."""

import gc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.c_builds import *  # noqa: F403 - fixtures
from tests.databases import *  # noqa: F403 - fixtures

# No deadline: a slow example on a busy machine is not an error. The default profile is derandomised, so that every run
# of a commit tries the same examples and has the same result. The profile ``thorough`` is random.
settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "thorough", deadline=None, derandomize=False, suppress_health_check=[HealthCheck.too_slow], max_examples=2000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Tests start hundreds of processes. Without bytecode files each of them would compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# The tests use all cores already. OpenMP threads that wait for each other spin, and boosted trees train much longer.
os.environ.setdefault("OMP_NUM_THREADS", "1")

REPOSITORY = Path(__file__).parents[1]


SLOW_ROOMS = ("e2e", "web", "predict", "bench", "docs", "gpu")
"""Most expensive first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long tests first: a long test that starts last leaves all other cores idle."""
    ranks = {REPOSITORY / "tests" / room: rank for rank, room in enumerate(SLOW_ROOMS)}
    items.sort(key=lambda item: min((ranks[p] for p in item.path.parents if p in ranks), default=len(ranks)))


def pytest_collection_finish() -> None:
    """The collected tests live to the end. Searching them for garbage again and again takes a tenth of the time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of this repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of public traces beside the repository, which are too large to be part of it."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no public traces at {folder}")
    return folder
