"""Tests of the progress of whole runs, from output that frameworks wrote (Keras 3, Lightning 2.6, transformers 5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.agent.tracker import Tracker

FOLDER = Path(__file__).parent / "outputs"


def steps_of(data: bytes) -> list[tuple[int, int | None]]:
    """Every state of the progress while the output arrives byte by byte."""
    tracker, found = Tracker(), []
    for at_us in range(len(data) + 1):
        if at_us < len(data):
            tracker.feed(data[at_us : at_us + 1], at_us)
        else:
            tracker.settle(at_us)
        state = tracker.progress and (tracker.progress.step, tracker.progress.total)
        if state and state not in found[-1:]:
            found.append(state)
    return found


@pytest.mark.parametrize(
    ("name", "total"),
    [("keras", 120), ("keras-verbose-2", 120), ("hugging-face", 30), ("jax", 1000)],
)
def test_progress_of_a_run_grows_to_its_total(name: str, total: int) -> None:
    found = steps_of((FOLDER / f"{name}.log").read_bytes())
    steps = [step for step, of in found if of == total]
    assert found[-1] == (total, total)
    assert steps == sorted(steps)
    assert len(steps) > 2


def test_validation_of_lightning_does_not_change_its_progress() -> None:
    """Its bars have the same length as those of the training."""
    found = steps_of((FOLDER / "lightning.log").read_bytes())
    sanity_checks = [state for state in found if state[1] is not None]
    assert found[: len(sanity_checks)] == sanity_checks == [(0, 2), (2, 2)]
    assert found[len(sanity_checks) :] == [(step, None) for step in range(0, 21, 5)]
