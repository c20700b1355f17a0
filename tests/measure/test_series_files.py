"""Tests for storing series in a folder."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.measure.series_files import all_of, default_folder, file_name, latest, read, save
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import (
    SHARING_MODES,
    ConfidenceInterval,
    CoRun,
    MeasurementSeries,
    MeasurementSetting,
    SoloMeasurement,
)
from gpusquad.model.interference_data import to_data
from tests.measure.sample import AT_US, sample

numbers = st.floats(0, 1e6)
names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
intervals = st.builds(ConfidenceInterval, numbers, numbers, numbers, st.integers(1, 9))
settings_ = st.builds(
    MeasurementSetting, names, names, st.sampled_from(SHARING_MODES), st.none() | st.integers(1, 10**12)
)
solos = st.builds(SoloMeasurement, names, intervals)
pairs = st.builds(
    lambda workloads, ratios: CoRun(workloads, (1000, 1000), ratios),
    st.tuples(names, names),
    st.tuples(intervals, intervals),
)
series = st.builds(
    MeasurementSeries,
    settings_,
    st.integers(0, 2**52),
    st.lists(solos, max_size=3).map(tuple),
    st.lists(pairs, max_size=3).map(tuple),
)


@given(series)
def test_series_round_trips_through_a_file(tmp_path_factory, measured):
    folder = tmp_path_factory.mktemp("tables")
    path = save(measured, folder)
    assert read(path) == measured
    assert path.parent == folder
    assert [entry.path for entry in all_of(folder).kept] == [path]


@given(settings_, st.integers(0, 2**52))
def test_file_name_is_plain_for_any_setting(setting, at_us):
    name = file_name(MeasurementSeries(setting, at_us))
    assert len(name) < 255
    assert not set(name) - set("abcdefghijklmnopqrstuvwxyz0123456789.+-_TZ")
    assert not name.startswith(".")


def test_file_name_describes_the_series():
    setting = MeasurementSetting("NVIDIA H200", "580.159.04", "mps", 12 * 10**9)
    assert file_name(MeasurementSeries(setting, AT_US)) == "nvidia-h200_580.159.04_mps_12gb_20251009T085320Z.json"
    assert "_whole_" in file_name(MeasurementSeries(replace(setting, memory_bytes=None), AT_US))


def test_latest_series_is_found_by_setting(tmp_path):
    old, new, other = sample(), sample(at_us=AT_US + 5_000_000), sample(sharing="time-slicing", at_us=AT_US + 9_000_000)
    paths = {save(entry, tmp_path) for entry in (new, other, old)}
    assert len(paths) == 3
    found = latest(tmp_path, old.setting)
    assert found is not None
    assert found.measured == new
    newest = latest(tmp_path)
    assert newest is not None
    assert newest.measured == other
    assert [entry.measured for entry in all_of(tmp_path, old.setting).kept] == [old, new]
    assert [entry.measured for entry in all_of(tmp_path).of(old.setting)] == [old, new]
    assert latest(tmp_path, MeasurementSetting("other", "1", "mps")) is None


def test_save_does_not_overwrite_a_file(tmp_path):
    first, second = sample(), sample(shift=0.1)
    assert save(first, tmp_path) != save(second, tmp_path)
    assert [entry.measured for entry in all_of(tmp_path).kept] == [first, second]


def test_incomplete_file_is_reported_and_skipped(tmp_path):
    path = save(sample(), tmp_path)
    half = tmp_path / "half.json"
    half.write_bytes(path.read_bytes()[:500])
    found = all_of(tmp_path)
    assert [entry.path for entry in found.kept] == [path]
    assert [(entry.path, entry.why) for entry in found.skipped] == [(half, "is incomplete or not JSON")]


def test_temporary_files_are_neither_left_nor_read(tmp_path):
    save(sample(), tmp_path)
    (tmp_path / ".17.5.new").write_text("{", encoding="utf-8")
    assert len(list(tmp_path.iterdir())) == 2
    assert len(all_of(tmp_path).kept) == 1
    assert all_of(tmp_path).skipped == ()


def test_save_leaves_no_file_when_the_disk_is_full(tmp_path, monkeypatch):
    def raise_disk_full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpusquad.measure.series_files.os.fsync", raise_disk_full)
    with pytest.raises(OSError, match="No space"):
        save(sample(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_save_works_on_file_systems_without_hard_links(tmp_path, monkeypatch):
    def raise_not_permitted(*_):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("gpusquad.measure.series_files.os.link", raise_not_permitted)
    first, second = sample(), sample(shift=0.1)
    assert {save(first, tmp_path), save(second, tmp_path)} == set(tmp_path.iterdir())
    assert [entry.measured for entry in all_of(tmp_path).kept] == [first, second]


def test_missing_folder_has_no_series(tmp_path):
    assert all_of(tmp_path / "none").kept == ()
    assert latest(tmp_path / "none") is None
    assert default_folder(Path("home")) == Path("home/interference")


def _changed(path: str, value: object) -> object:
    data = json.loads(json.dumps(to_data(sample())))
    *parents, last = path.split(".")
    container = data
    for step in parents:
        container = container[int(step)] if isinstance(container, list) else container[step]
    container[int(last) if isinstance(container, list) else last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("format", 99), ("setting", []), ("setting.gpu", None), ("setting.sharing", ["mps"]),
        ("setting.memory_bytes", "x"),
        ("at_us", 1e400), ("at_us", -5), ("at_us", 10**30), ("solos", None), ("solos.0", 5), ("solos.0.workload", 5),
        ("solos.0.steps_per_s.mean", "fast"), ("solos.0.memory_bytes", None), ("solos.0.by_sm", [[1, 1e400]]),
        ("co_runs.0.ratios.0.low", None), ("co_runs.0.samples.0.1", float("nan")), ("co_runs.0.ratios", [{}]),
        ("co_runs.0.workloads", ["alone"]), ("co_runs.0.samples", [[1.0]]), ("co_runs.0.sm_milli", [1000]),
        ("co_runs.0.out_of_memory", [True]), ("co_runs.0", {}),
    ],
)  # fmt: skip
def test_invalid_files_are_refused(tmp_path, path, value):
    file = tmp_path / "x.json"
    file.write_text(json.dumps(_changed(path, value)), encoding="utf-8")
    with pytest.raises(Invalid) as caught:
        read(file)
    assert caught.value.field == str(file)
    assert [entry.path for entry in all_of(tmp_path).skipped] == [file]


@given(
    st.recursive(
        st.none() | st.booleans() | numbers | names, lambda inner: st.lists(inner) | st.dictionaries(names, inner)
    )
)
def test_arbitrary_json_is_refused(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("any") / "x.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(Invalid):
        read(file)


def test_example_file_equals_the_sample(repository):
    assert read(repository / "examples" / "interference.json") == sample()
