"""Tests for reading the YAML of job files."""

import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.spec.yaml_file import MAX_FILE_BYTES, load
from tests.spec.data import FULL, ROLES


def load_error(source) -> Invalid:
    with pytest.raises(Invalid) as caught:
        load(source)
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"), ("yes", "yes"), ("no", "no"), ("off", "off"), ("y", "y"),
        ("true", True), ("False", False), ("~", None), ("", None), ("null", None), ("nullx", "nullx"),
        ("010", 10), ("0o10", 8), ("0x1F", 31), ("-3", -3), ("1_000", "1_000"), ("1:30", "1:30"),
        ("1e-3", 0.001), ("1.", 1.0), (".5", 0.5), ("-.5", -0.5), (".", "."), ("1.2.3", "1.2.3"),
        ("2024-01-01", "2024-01-01"), ("'3'", "3"), ('"a\\tb"', "a\tb"), ("=", "="), ("!!str 3", "3"),
        ("!!float 3", 3.0), ("${lr}", "${lr}"), ("2h", "2h"), ("25%", "25%"), ("{}", {}), ("[a, 'b']", ["a", "b"]),
        ("|\n  x\n  y", "x\ny"), (".inf", math.inf), ("-.INF", -math.inf), ("<<", "<<"),
    ],
)  # fmt: skip
def test_scalars_are_read_as_in_yaml_1_2(text, value):
    assert load(f"key: {text}") == {"key": value}


def test_on_is_read_as_a_field_name():
    assert load("after: [{job: a, on: any}]") == {"after": [{"job": "a", "on": "any"}]}


def test_nan_is_read_as_nan():
    assert math.isnan(load("a: .NaN")["a"])


def test_file_is_read_from_a_path(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_bytes("\ufeffname: träin\r\ngpus: 1\r\n".encode())
    assert load(path) == {"name": "träin", "gpus": 1}


def test_missing_file_raises_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.yaml")


@pytest.mark.parametrize("data", [FULL, ROLES])
def test_json_is_read_as_yaml(data):
    assert load(json.dumps(data)) == data


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("a: 1\nb: 2\na: 3", "line 3", "'a' is given twice"),
        ("a:\n  - x: 1\n    x: 2", "line 3", "'x' is given twice"),
        ("a: &x [1]\nb: *x", "line 2", "alias"),
        ("a: &x\n  b: *x", "line 2", "alias"),
        ("1: 2", "line 1", "field name that is not text"),
        ("a: 1\ntrue: 2", "line 2", "put it in quotes"),
        ("? [a]\n: 1", "line 1", "field name that is not text"),
        ("a: !!python/object:os.system x", "line 1", "not an allowed tag"),
        ("a: !!binary aGk=", "line 1", "not an allowed tag"),
        ("a: !mine x", "line 1", "not an allowed tag"),
        ("a: !!set {x}", "line 1", "not an allowed tag"),
        ("a: !!int x", "line 1", "cannot read 'x' as int"),
        ("a: 1\n---\nb: 2", "line 2", "one file per job"),
        ("a: 1\n  b: 2", "line 2", "mapping values"),
        ("a: [1, 2\nb: 3", "line 2", ""),
        ("a: 1\n\tb: 2", "line 2", ""),
        ("a: 1\nb: 'x\0'", "line 2", "U+0000"),
        ("a: \x1b[31m", "line 1", "U+001B"),
        ("a: \ud800", "line 1", ""),
        ("a: " + "9" * 5000, "line 1", "too long"),
        ("a: " + "[" * 100_000, "line 1", "nested deeper"),
        ("a: " + "{b: " * 1000, "line 1", "nested deeper"),
        ("x: 1\n" + "- " * 100_000, "line 2", ""),
        ("a: &a [&a [&a [*a]]]", "line 1", "alias"),
        ("%YAML 9.9\n---\na: 1", "line 1", ""),
        ("a: @x", "line 1", ""),
        ("", "job file", "not None"),
        ("- a", "job file", "not ['a']"),
        ("just text", "job file", "must be an object"),
        ("# nothing", "job file", "not None"),
        ("a: " + "x" * MAX_FILE_BYTES, "job file", "larger than 1 MiB"),
    ],
)  # fmt: skip
def test_invalid_yaml_is_refused_with_its_line(text, where, words):
    error = load_error(text)
    assert error.field.endswith(where)
    assert words in str(error)
    assert len(str(error)) < 500


def test_error_names_the_file(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("a: 1\na: 2")
    assert load_error(path).field == "job.yaml line 2"
    path.write_bytes(b"a: 1\nb: \xff")
    assert load_error(path).field == "job.yaml line 2"
    path.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    assert load_error(path).field == "job.yaml"


@given(st.text() | st.text(st.sampled_from("ab:- \n[]{}&*!|>'\"#%@`,?~\t0.")))
def test_any_text_is_read_or_raises_invalid(text):
    with contextlib.suppress(Invalid):
        assert isinstance(load(text), dict)
