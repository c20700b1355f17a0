"""Tests of the record of versions with which figures were measured."""

from __future__ import annotations

from pathlib import Path

from bench.card.machine import _version, library_version, policies_version, sitting


def test_record_has_the_versions_of_shim_and_policies() -> None:
    record = sitting("training", "cpu", "0")
    assert (record["library"], record["policies"]) == (library_version(), policies_version())
    assert record["library"] != record["policies"]


def test_version_depends_on_all_sources(tmp_path: Path) -> None:
    sources = [tmp_path / "a.c", tmp_path / "b.def"]
    for path in sources:
        path.write_text(path.name)
    before = _version(sources)
    assert _version(reversed(sources)) == before
    sources[1].write_text("changed")
    assert _version(sources) != before
