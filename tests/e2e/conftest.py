"""Fixtures: running services on each kind of store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.running import RunningService


@pytest.fixture
def make_service(tmp_path: Path, blank_url: str) -> Iterator[Callable[..., RunningService]]:
    """Start services that end with the test. ``config`` is the text of ``config.toml``."""
    services: list[RunningService] = []

    def make(*options: str, config: str = "", **rest) -> RunningService:
        home = tmp_path / f"home{len(services)}"
        service = RunningService(home, "--simulate", "8", "--database", blank_url, *options, config=config, **rest)
        services.append(service)
        return service.start().checked()

    yield make
    for service in services:
        service.end()


@pytest.fixture
def service(make_service) -> RunningService:
    return make_service()
