"""A running service on each kind of store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.running import RunningService


@pytest.fixture
def make_service(tmp_path: Path, blank_url: str) -> Iterator[Callable[..., RunningService]]:
    """Makes services that end with the test. ``config`` is the text of its settings file."""
    made: list[RunningService] = []

    def make(*options: str, config: str = "", **rest) -> RunningService:
        home = tmp_path / f"home{len(made)}"
        service = RunningService(home, "--simulate", "8", "--database", blank_url, *options, config=config, **rest)
        made.append(service)
        return service.start().checked()

    yield make
    for service in made:
        service.end()


@pytest.fixture
def service(make_service) -> RunningService:
    return make_service()
