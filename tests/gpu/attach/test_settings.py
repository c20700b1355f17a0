"""Folders and settings of card sharing, the copied library, and the records of attached clients."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.gpu.attach import library
from gpusquad.gpu.attach.card_manager import CardManager
from gpusquad.gpu.attach.card_slices import place_on
from gpusquad.gpu.attach.library import client_library
from gpusquad.gpu.attach.records import AttachRecord, AttachRecords
from gpusquad.gpu.attach.settings import CardSharingSettings, default_folder
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid
from gpusquad.model.virtual import parts_of


def test_default_folder_is_a_runtime_directory_when_one_exists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_folder() == Path("/run/gpusquad")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    assert default_folder() == Path("/run/user/1000/gpusquad")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert default_folder(tmp_path) == tmp_path / "run"


@given(st.text(min_size=1).filter(lambda name: name not in (".", "..")))
def test_each_card_has_its_own_folder(name: str) -> None:
    folder = CardSharingSettings(folder=Path("/base")).card_folder(name)
    assert folder.parent == Path("/base/cards")
    assert folder != CardSharingSettings(folder=Path("/base")).card_folder(name + "/")


@pytest.mark.parametrize("wrong", [
    {"where": "pod"}, {"strangers": "kill"}, {"fail_open_ms": 499}, {"fail_open_ms": -1}, {"fail_open_ms": 3_600_001},
    {"context_bytes": -1}, {"context_bytes": (16 << 30) + 1},
])  # fmt: skip
def test_invalid_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(Invalid, match=f"{next(iter(wrong))}: .*{next(iter(wrong.values()))}"):
        CardSharingSettings(**wrong)  # type: ignore[arg-type]


def test_new_folders_are_readable_by_all_and_existing_ones_unchanged(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    settings = CardSharingSettings(folder=closed / "run", library=Path("/lib.so"), library_folder=None)
    before = os.umask(0o077)
    try:
        CardManager(Card("GPU-1"), settings).make_folder()
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(place.stat().st_mode) for place in (closed / "run/cards/GPU-1", closed / "run", closed)]
    assert modes == [0o755, 0o755, 0o700]  # the mode of an existing folder does not change


@pytest.mark.parametrize("place", ["run", "run/cards", "run/cards/GPU-1"])
@pytest.mark.parametrize("how", ["open", "link"])
def test_folder_writable_by_others_is_refused(tmp_path: Path, place: str, how: str) -> None:
    manager = CardManager(Card("GPU-1"), CardSharingSettings(folder=tmp_path / "run"))
    manager.make_folder()
    manager.make_folder()
    if how == "open":
        (tmp_path / place).chmod(0o777)
    else:
        (tmp_path / place).rename(tmp_path / "elsewhere")
        (tmp_path / place).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Invalid, match="writable by other users"):
        manager.make_folder()


def test_library_is_copied_to_where_all_users_can_load_it(tmp_path: Path) -> None:
    built = tmp_path / "built.so"
    built.write_bytes(b"one")
    settings = CardSharingSettings(folder=tmp_path, library=built, library_folder=tmp_path / "lib")
    first = client_library(settings)
    assert first.read_bytes() == b"one"
    assert stat.S_IMODE(first.stat().st_mode) == stat.S_IMODE(first.parent.stat().st_mode) == 0o755
    inode = first.stat().st_ino
    assert client_library(settings).stat().st_ino == inode
    built.write_bytes(b"two")
    assert client_library(settings) != first
    assert first.read_bytes() == b"one"  # running clients have it loaded


def test_truncated_library_is_copied_again(tmp_path: Path) -> None:
    built = tmp_path / "built.so"
    built.write_bytes(b"one")
    settings = CardSharingSettings(folder=tmp_path, library=built, library_folder=tmp_path / "lib")
    client_library(settings).write_bytes(b"")
    (tmp_path / "lib").chmod(0o700)
    assert client_library(settings).read_bytes() == b"one"
    assert stat.S_IMODE((tmp_path / "lib").stat().st_mode) == 0o755


def test_folders_above_the_library_are_readable_by_all(tmp_path: Path) -> None:
    (tmp_path / "built.so").write_bytes(b"one")
    before = os.umask(0o077)
    try:
        client_library(
            CardSharingSettings(folder=tmp_path, library=tmp_path / "built.so", library_folder=tmp_path / "made/lib")
        )
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o755


def test_library_is_built_again_when_its_cache_was_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def build() -> Path:
        made.append(tmp_path / f"{len(made)}.so")
        made[-1].write_bytes(b"one")
        return made[-1]

    monkeypatch.setattr("gpusquad.gpu.build.library", build)
    library._built.cache_clear()
    settings = CardSharingSettings(folder=tmp_path, library_folder=tmp_path / "lib")
    try:
        client_library(settings)
        client_library(settings)
        assert len(made) == 1
        made[0].unlink()
        assert client_library(settings).read_bytes() == b"one"
        assert len(made) == 2
    finally:
        library._built.cache_clear()


def test_missing_home_directory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("gpusquad.gpu.build.library", homeless)
    library._built.cache_clear()
    with pytest.raises(Invalid, match="XDG_CACHE_HOME"):
        client_library(CardSharingSettings(folder=tmp_path))


def test_library_path_with_a_space_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "lib.so").write_bytes(b"")
    with pytest.raises(Invalid, match="without spaces"):
        client_library(CardSharingSettings(folder=tmp_path, library=folder / "lib.so", library_folder=folder))


attach_records = st.builds(
    AttachRecord,
    env=st.dictionaries(st.text(), st.text(), max_size=3),
    notes=st.lists(st.text(), max_size=2).map(tuple),
    is_pooled=st.booleans(),
    uid=st.integers(0, 2**32),
    job=st.text(),
)


@given(st.lists(st.tuples(st.text(min_size=1), st.none() | attach_records), max_size=8))
def test_attach_records_are_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, AttachRecord | None]]
) -> None:
    records = AttachRecords(tmp_path_factory.mktemp("records") / "told.json")
    expected: dict[str, AttachRecord] = {}
    for name, record in changes:
        if record is None:
            records.drop(name)
            expected.pop(name, None)
        else:
            records.keep(name, record)
            expected[name] = record
    assert records.all() == expected


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": 5}', '{"a": {"colour": 1, "notes": []}}'])
def test_unreadable_records_are_dropped(tmp_path: Path, content: str) -> None:
    (tmp_path / "told.json").write_text(content)
    assert AttachRecords(tmp_path / "told.json").all() == {}


@given(st.integers(2, 16), st.integers(1, 6))
def test_virtual_cards_do_not_overlap(count: int, each: int) -> None:
    places = [place_on(Card(part.id, "x", 100, each * 8)) for part in parts_of("GPU-1", count)]
    assert len({place.card for place in places}) == 1
    assert places[0].card.memory_bytes == 100 * count
    assert sum(place.within for place in places) == (1 << each * count) - 1
    assert CardSharingSettings(folder=Path("/base")).groups_of(places[0].card) >= min(each * count, 64)
