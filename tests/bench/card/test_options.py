"""What a bench is asked for: parts of names, of which at least one must be known."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.card import training
from bench.card.__main__ import main
from bench.card.place import Place
from bench.card.rows import RowFile


@pytest.mark.parametrize("bench", ["slos", "training", "virtual", "cost"])
def test_a_name_that_nobody_has_is_told_with_those_there_are(
    bench: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [bench, "--device", "cpu", "--tiny", "--only", "nobody", "--out", str(tmp_path / "rows.jsonl")]
    assert main(words) == 1
    assert "nothing is called nobody" in (said := capsys.readouterr().err)
    assert "choose from" in said


@pytest.mark.parametrize("bench", ["pairs", "mechanism", "training"])
def test_a_condition_that_nobody_knows_is_told_with_those_there_are(
    bench: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [bench, "--device", "cpu", "--tiny", "--conditions", "MPS priority;magic"]
    assert main([*words, "--out", str(tmp_path / "rows.jsonl")]) == 1
    assert "'magic' is not known" in (said := capsys.readouterr().err)
    assert "MPS priority" in said


def test_a_couple_is_full_when_the_conditions_that_were_asked_for_are(tmp_path: Path) -> None:
    (couple,) = training.TINY_COUPLES
    options = training.Options(Place(device="cpu"), tiny=True, repeats=2, conditions=("MPS", "gpusquad jct"))
    assert list(options.hows) == ["MPS", "gpusquad jct"]
    file = RowFile(tmp_path / "rows.jsonl")
    head = {"bench": training.BENCH, "kind": "run", "sitting": "s", "setup": options.setup(couple)}
    for condition in ("MPS", "MPS", "gpusquad jct", "MPS priority", "MPS priority"):
        file.add({**head, "condition": condition})
    assert not training._is_full(file, couple, options)
    file.add({**head, "condition": "gpusquad jct"})
    assert training._is_full(file, couple, options)
