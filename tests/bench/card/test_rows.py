"""Tests of the row file, which loses no complete row when a run is interrupted."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bench.card.rows import RowFile, chosen, read_all

ROWS = [{"bench": "pairs", "kind": "block", "n": index, "late_us": [1, 2, 3]} for index in range(4)]


def write_rows(path: Path) -> bytes:
    file = RowFile(path)
    for row in ROWS:
        file.add(row)
    return path.read_bytes()


def test_reopened_file_has_its_rows_and_accepts_more(tmp_path: Path) -> None:
    path = tmp_path / "results" / "a.jsonl"
    write_rows(path)
    again = RowFile(path)
    assert again.rows == ROWS
    again.add({"bench": "cost", "kind": "round"})
    assert RowFile(path).rows == [*ROWS, {"bench": "cost", "kind": "round"}]
    assert again.of("pairs", "block") == ROWS


@given(cut=st.integers(0, 10_000))
def test_truncated_file_keeps_complete_rows_and_accepts_more(tmp_path_factory, cut: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "a.jsonl"
    content = write_rows(path)
    remaining = content[: cut % (len(content) + 1)]
    path.write_bytes(remaining)
    file = RowFile(path)
    complete = remaining.count(b"\n")
    assert file.rows == ROWS[:complete]
    file.add({"bench": "pairs", "kind": "last"})
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        *ROWS[:complete],
        {"bench": "pairs", "kind": "last"},
    ]


def test_invalid_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    content = write_rows(path)
    path.write_bytes(b'{"bench": "pa\n[1]\n' + content)
    assert RowFile(path).rows == ROWS


def test_reading_files_does_not_change_them(tmp_path: Path) -> None:
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    write_rows(first)
    second.write_bytes(first.read_bytes() + b'{"bench"')
    assert read_all([first, second]) == [*ROWS, *ROWS]
    assert second.read_bytes().endswith(b'{"bench"')
    assert chosen(read_all([first]), "pairs", "sitting") == []


def test_files_of_earlier_runs_are_read_and_not_changed(tmp_path: Path) -> None:
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    content = write_rows(old)
    file = RowFile(new, [old, new, tmp_path / "not there.jsonl"])
    assert file.rows == ROWS
    file.add({"bench": "cost", "kind": "round"})
    assert old.read_bytes() == content
    assert RowFile(new).rows == [{"bench": "cost", "kind": "round"}]
    assert len(RowFile(new, [old, new]).rows) == len(ROWS) + 1
