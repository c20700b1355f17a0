"""A service to ask, and a client that does not really wait."""

from collections.abc import Iterator

import pytest

from gpusquad.client import Client
from tests.fake_service import TOKEN, FakeService, running


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def url(service: FakeService) -> Iterator[str]:
    with running(service) as url:
        yield url


@pytest.fixture
def pauses() -> list[float]:
    """How long the client would have slept, each time."""
    return []


@pytest.fixture
def client(url: str, pauses: list[float]) -> Iterator[Client]:
    with Client(url, TOKEN, pause=pauses.append) as client:
        yield client
