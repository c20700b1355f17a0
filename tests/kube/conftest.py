"""These tests start a real control plane, so they run only where somebody asks for them: GPUSQUAD_KUBE=1.

With CI=true nothing is skipped: what is missing fails.
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
ALWAYS = ["test_build.py"]  # needs no program


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _why_not()
    if reason is None:
        return
    for item in items:
        if HERE in item.path.parents and item.path.name not in ALWAYS:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """A control plane with four fake nodes of eight cards, for all tests that leave it as they found it."""
    with ControlPlane(Settings(fake_nodes=4)) as started:
        yield started


@pytest.fixture
def machine() -> Machine:
    """For tests that make this machine a node, and must leave it as it was."""
    need_node()
    return Machine()


def _why_not() -> str | None:
    if os.environ.get("GPUSQUAD_KUBE") != "1":
        return "a real control plane is started only with GPUSQUAD_KUBE=1"
    absent = missing_programs() if os.environ.get("CI") != "true" else []
    return f"missing: {', '.join(absent)}; make kube brings them" if absent else None
