"""What figures were measured with."""

from __future__ import annotations

from pathlib import Path

from bench.card.machine import _version, library_version, policies_version, sitting


def test_a_call_names_the_versions_of_what_it_measures() -> None:
    told = sitting("training", "cpu", "0")
    assert (told["library"], told["policies"]) == (library_version(), policies_version())
    assert told["library"] != told["policies"]


def test_a_version_is_one_of_all_sources(tmp_path: Path) -> None:
    sources = [tmp_path / "a.c", tmp_path / "b.def"]
    for path in sources:
        path.write_text(path.name)
    before = _version(sources)
    assert _version(reversed(sources)) == before
    sources[1].write_text("changed")
    assert _version(sources) != before
