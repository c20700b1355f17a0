"""Fixtures for tests with a real control plane. They run only with GPUSQUAD_KUBE=1.

With CI=true nothing is skipped: missing programs make the tests fail.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.machine import Machine
from tests.kube.node import need_node
from tests.kube.plane import ControlPlane, Settings, missing_programs

HERE = Path(__file__).parent
NEVER_SKIPPED = ["test_build.py"]  # needs no program


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _skip_reason()
    if reason is None:
        return
    for item in items:
        if HERE in item.path.parents and item.path.name not in NEVER_SKIPPED:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """Control plane with four fake nodes of eight cards, shared by tests that restore its state."""
    with ControlPlane(Settings(fake_nodes=4)) as started:
        yield started


@pytest.fixture
def machine() -> Machine:
    """State of this machine, for tests that make it a node and must restore it."""
    need_node()
    return Machine()


def _skip_reason() -> str | None:
    if os.environ.get("GPUSQUAD_KUBE") != "1":
        return "a real control plane is started only with GPUSQUAD_KUBE=1"
    absent = missing_programs() if os.environ.get("CI") != "true" else []
    return f"missing: {', '.join(absent)}; make kube brings them" if absent else None
