"""What a bench is asked for: parts of names, of which at least one must be known."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.card.__main__ import main


@pytest.mark.parametrize("bench", ["slos", "training", "virtual", "cost"])
def test_a_name_that_nobody_has_is_told_with_those_there_are(
    bench: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [bench, "--device", "cpu", "--tiny", "--only", "nobody", "--out", str(tmp_path / "rows.jsonl")]
    assert main(words) == 1
    assert "nothing is called nobody" in (said := capsys.readouterr().err)
    assert "choose from" in said
