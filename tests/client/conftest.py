"""Fake service, and a client that records its pauses instead of sleeping."""

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
    """Pauses of the client, in seconds."""
    return []


@pytest.fixture
def client(url: str, pauses: list[float]) -> Iterator[Client]:
    with Client(url, TOKEN, pause=pauses.append) as client:
        yield client
