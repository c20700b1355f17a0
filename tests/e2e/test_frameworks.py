"""Tests that real programs of TensorFlow and JAX run as jobs, unchanged and with default settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.running import RunningService
from tools import frameworks

PROGRAMS = Path(__file__).parent / "frameworks"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    service = RunningService(tmp_path_factory.mktemp("home"), "--simulate", "8")
    yield service.start().checked()
    service.end()


@pytest.fixture(scope="module")
def python() -> str:
    found = frameworks.python()
    if found is None:
        reason = "TensorFlow and JAX are not installed: run `make frameworks`"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return str(found)


def test_tensorflow_gang_trains_as_one_cluster(service: RunningService, python: str) -> None:
    job_id = service.submit(count=2, command=[python, str(PROGRAMS / "tensorflow_gang.py")])
    job = service.wait(job_id, patience_s=300)
    texts = [service.text(job_id, task) for task in (0, 1)]
    assert job["state"] == "succeeded", texts
    assert [text.splitlines()[-1] for text in texts] == ["replicas 2 worker 0", "replicas 2 worker 1"]
    losses = [[line for line in text.splitlines() if line.startswith("step ")] for text in texts]
    assert losses[0] == losses[1] != []


def test_tensorflow_program_alone_finds_no_cluster(service: RunningService, python: str) -> None:
    job_id = service.submit(command=[python, str(PROGRAMS / "keras_alone.py")])
    job = service.wait(job_id, patience_s=300)
    text = service.text(job_id)
    assert job["state"] == "succeeded", text
    assert text.endswith("trained\n")


def test_jax_gang_gathers_from_all_processes(service: RunningService, python: str) -> None:
    job_id = service.submit(count=2, command=[python, str(PROGRAMS / "jax_gang.py")])
    job = service.wait(job_id, patience_s=300)
    texts = [service.text(job_id, task) for task in (0, 1)]
    assert job["state"] == "succeeded", texts
    assert all(text.endswith("processes 2 sum 12\n") for text in texts), texts
