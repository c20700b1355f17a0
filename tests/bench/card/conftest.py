"""Fixture: a machine with a fake MPS program and clients that need no PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.card import leftovers, stage
from bench.card.place import Place
from tests.gpu.mps_program import install_fake_mps_program

SCRIPT = """#!/bin/sh
{ echo "asked $@"; [ "$1" = -d ] || cat; } >>"$ASKED"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Settings of the bench. Requests to MPS are recorded in the file ``asked`` of the test's folder."""
    install_fake_mps_program(tmp_path, monkeypatch, SCRIPT)
    shared = tmp_path / "shm"
    shared.mkdir()
    for module in (leftovers, stage):
        monkeypatch.setattr(module, "SHARED", shared)
    return Place(device="cpu", logs=tmp_path / "logs", module="tests.bench.card.fake_tenant")
