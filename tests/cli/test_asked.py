"""What a job asks for of the cards, in words."""

from __future__ import annotations

import pytest

from gpusquad.cli._views.resources import gpus, request_text

GIB = 2**30


def share(sm: float | None = None, memory: int | str | None = None, isolation: str = "shared") -> dict:
    return {"sm": sm, "memory": memory, "isolation": isolation}


@pytest.mark.parametrize(
    ("job", "words", "column"),
    [
        ({"gpus": 8, "share": None}, "8 GPUs", "8"),
        ({"gpus": 0, "share": None}, "no GPU", "0"),
        ({"gpus": 1, "share": share(0.4, 8 * GIB)}, "40 % of the SMs and 8.0 GiB of one GPU", "40 %"),
        ({"gpus": 1, "share": share(0.125)}, "12.5 % of the SMs of one GPU", "12.5 %"),
        ({"gpus": 1, "share": share(memory="30%")}, "30 % of the memory of one GPU", "30 %"),
        ({"gpus": 1, "share": share(0.25, "30%")}, "25 % of the SMs and 30 % of the memory of one GPU", "25 %"),
        ({"gpus": 2, "share": share(memory=10 * GIB)}, "10.0 GiB of one GPU", "2 × 10.0 GiB"),
        ({"gpus": 1, "share": share(0.5, isolation="isolated")}, "50 % of the SMs of one GPU, isolated", "50 %"),
        ({"gpus": 3}, "3 GPUs", "3"),
    ],
)
def test_whole_cards_and_parts_of_one(job: dict, words: str, column: str) -> None:
    assert (request_text(job), gpus(job)) == (words, column)
