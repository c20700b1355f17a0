"""What was measured stays, wherever a run was cut off."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bench.card.rows import RowFile, chosen, read_all

ROWS = [{"bench": "pairs", "kind": "block", "n": index, "late_us": [1, 2, 3]} for index in range(4)]


def written(path: Path) -> bytes:
    file = RowFile(path)
    for row in ROWS:
        file.add(row)
    return path.read_bytes()


def test_goes_on_where_the_last_run_ended(tmp_path: Path) -> None:
    path = tmp_path / "results" / "a.jsonl"
    written(path)
    again = RowFile(path)
    assert again.rows == ROWS
    again.add({"bench": "cost", "kind": "round"})
    assert RowFile(path).rows == [*ROWS, {"bench": "cost", "kind": "round"}]
    assert again.of("pairs", "block") == ROWS


@given(cut=st.integers(0, 10_000))
def test_a_file_cut_anywhere_loses_no_whole_row_and_can_be_added_to(tmp_path_factory, cut: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "a.jsonl"
    content = written(path)
    kept = content[: cut % (len(content) + 1)]
    path.write_bytes(kept)
    file = RowFile(path)
    whole = kept.count(b"\n")
    assert file.rows == ROWS[:whole]
    file.add({"bench": "pairs", "kind": "last"})
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        *ROWS[:whole],
        {"bench": "pairs", "kind": "last"},
    ]


def test_what_is_no_row_in_the_middle_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    content = written(path)
    path.write_bytes(b'{"bench": "pa\n[1]\n' + content)
    assert RowFile(path).rows == ROWS


def test_reading_several_files_changes_none(tmp_path: Path) -> None:
    one, other = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    written(one)
    other.write_bytes(one.read_bytes() + b'{"bench"')
    assert read_all([one, other]) == [*ROWS, *ROWS]
    assert other.read_bytes().endswith(b'{"bench"')
    assert chosen(read_all([one]), "pairs", "sitting") == []


def test_files_of_earlier_runs_count_and_stay_as_they_are(tmp_path: Path) -> None:
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    content = written(old)
    file = RowFile(new, [old, new, tmp_path / "not there.jsonl"])
    assert file.rows == ROWS
    file.add({"bench": "cost", "kind": "round"})
    assert old.read_bytes() == content
    assert RowFile(new).rows == [{"bench": "cost", "kind": "round"}]
    assert len(RowFile(new, [old, new]).rows) == len(ROWS) + 1
