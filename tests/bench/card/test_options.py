"""Tests of the options that select names and conditions."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.card import training
from bench.card.__main__ import main
from bench.card.place import Place
from bench.card.rows import RowFile


@pytest.mark.parametrize("bench", ["slos", "training", "virtual", "cost"])
def test_unknown_name_is_refused_with_the_known_names(
    bench: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [bench, "--device", "cpu", "--tiny", "--only", "nobody", "--out", str(tmp_path / "rows.jsonl")]
    assert main(arguments) == 1
    assert "nothing is called nobody" in (errors := capsys.readouterr().err)
    assert "choose from" in errors


@pytest.mark.parametrize("bench", ["pairs", "mechanism", "training"])
def test_unknown_condition_is_refused_with_the_known_conditions(
    bench: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [bench, "--device", "cpu", "--tiny", "--conditions", "MPS priority;magic"]
    assert main([*arguments, "--out", str(tmp_path / "rows.jsonl")]) == 1
    assert "'magic' is not known" in (errors := capsys.readouterr().err)
    assert "MPS priority" in errors


def test_couple_is_complete_when_the_selected_conditions_are(tmp_path: Path) -> None:
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
