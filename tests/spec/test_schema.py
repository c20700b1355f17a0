"""Tests that the JSON schema for editors agrees with the check of job files."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.spec.check import check
from gpusquad.spec.model import JobFile
from gpusquad.spec.schema import DIALECT, json_schema, schema_text
from gpusquad.spec.yaml_file import load
from tests.spec.data import FULL, ROLES, SIMPLE, damaged_files

jsonschema_rs = pytest.importorskip("jsonschema_rs")
SCHEMA = json_schema()
validator = jsonschema_rs.Draft202012Validator(SCHEMA)


def test_schema_is_valid_json_schema():
    assert SCHEMA["$schema"] == DIALECT
    jsonschema_rs.meta.validate(SCHEMA)


def test_every_field_has_title_description_and_examples():
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        assert part["description"]
        for name, field in part["properties"].items():
            assert field["title"], name
            assert field["description"], name
            assert field["examples"], name


def test_examples_of_every_field_match_its_schema():
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        for name, field in part["properties"].items():
            field_validator = jsonschema_rs.Draft202012Validator({"$defs": SCHEMA["$defs"], **field})
            for example in field["examples"]:
                assert field_validator.is_valid(example), (name, example)


def test_examples_of_job_file_fields_pass_the_check():
    for name, field in SCHEMA["properties"].items():
        for example in field["examples"]:
            plain = {"command": "x"} if name in ("roles", "share") else SIMPLE
            check(plain | {name: example})


def test_schema_properties_match_the_model_fields():
    assert set(SCHEMA["properties"]) == set(JobFile.model_fields)
    assert {"name", "as"} == set(SCHEMA["$defs"]["SecretSpec"]["properties"])
    assert {"latency", "p99"} < set(SCHEMA["$defs"]["SloSpec"]["properties"])


@pytest.mark.parametrize("data", [SIMPLE, FULL, ROLES])
def test_valid_files_match_the_schema(data):
    validator.validate(data)


@pytest.mark.parametrize(
    "change",
    [
        {"gpuss": 1}, {"gpus": -1}, {"gpus": "4"}, {"gpus": 0.5}, {"count": 0}, {"command": []}, {"command": [3]},
        {"estimate": "2 parsecs"}, {"memory": "lots"}, {"cpu": "half"}, {"slo": {"latancy": 1}}, {"env": {"A-B": ""}},
        {"env": {"GPUSQUAD_JOB": ""}}, {"secrets": [{"name": "A", "value": "x"}]}, {"after": "prepare"},
        {"after": [{"job": "a", "on": "sometimes"}]}, {"retries": -1}, {"notify": ["weather"]}, {"priority": "top"},
        {"version": 2}, {"params": {"a": [1]}}, {"sweep": {}}, {"sweep": {"a": 1}}, {"sweep": []}, {"share": {}},
        {"share": {"isolation": "isolated"}}, {"share": {"sm": 1, "isolation": "mps"}},
        {"roles": [{"name": "a", "cpu": 1}]}, {"checkpoint": {"preemptible": "yes"}}, {"name": "x" * 129},
    ],
)  # fmt: skip
def test_invalid_values_are_refused_by_schema_and_check(change):
    assert not validator.is_valid(SIMPLE | change)
    with pytest.raises(Invalid):
        check(SIMPLE | change)


@pytest.mark.parametrize("data", [{}, {"gpus": 1}, {"command": "x"}, {"command": "x", "roles": [{"name": "a"}]}])
def test_files_with_missing_fields_do_not_match_the_schema(data):
    assert not validator.is_valid(data)


@given(damaged_files())
def test_every_accepted_file_matches_the_schema(data):
    """An editor must not warn about an accepted file. Files with null are skipped: only the check accepts it."""
    try:
        file = check(data)
        text = json.dumps(data, allow_nan=False)
    except (Invalid, ValueError):
        return
    if "null" not in text and not _is_huge(data):
        assert validator.is_valid(data), [str(error) for error in validator.iter_errors(data)]
    assert file


def _is_huge(value) -> bool:
    if isinstance(value, dict):
        return any(map(_is_huge, value.values()))
    if isinstance(value, list):
        return any(map(_is_huge, value))
    return isinstance(value, (int, float)) and abs(value) > 2**53


@given(st.from_regex(r" ?\+?[0-9]{0,3}\.?[0-9]{0,2}(e[0-9])? ?[a-zA-Z%]{0,3} ?", fullmatch=True))
def test_accepted_amounts_with_units_match_the_schema(text):
    for name in ("estimate", "memory", "cpu"):
        try:
            check(SIMPLE | {name: text})
        except Invalid:
            continue
        assert validator.is_valid(SIMPLE | {name: text}), name


def test_schema_file_beside_the_examples_is_up_to_date(repository):
    """Write it with: python -m gpusquad.spec.schema > examples/jobs/job.schema.json"""
    assert (repository / "examples/jobs/job.schema.json").read_text(encoding="utf-8") == schema_text()


def test_json_schema_returns_a_copy():
    before = copy.deepcopy(json_schema())
    json_schema()["properties"].clear()
    assert json_schema() == before


def test_example_files_match_the_schema(repository):
    for path in (repository / "examples/jobs").glob("*.yaml"):
        validator.validate(load(path))
