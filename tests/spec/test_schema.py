"""What editors are told agrees with what is accepted."""

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


def test_the_schema_is_one():
    assert SCHEMA["$schema"] == DIALECT
    jsonschema_rs.meta.validate(SCHEMA)


def test_every_field_explains_itself():
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        assert part["description"]
        for name, field in part["properties"].items():
            assert field["title"], name
            assert field["description"], name
            assert field["examples"], name


def test_the_examples_of_every_field_are_accepted():
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        for name, field in part["properties"].items():
            wanted = jsonschema_rs.Draft202012Validator({"$defs": SCHEMA["$defs"], **field})
            for example in field["examples"]:
                assert wanted.is_valid(example), (name, example)


def test_the_examples_of_a_job_file_can_be_used():
    for name, field in SCHEMA["properties"].items():
        for example in field["examples"]:
            plain = {"command": "x"} if name in ("roles", "share") else SIMPLE
            check(plain | {name: example})


def test_names_are_those_of_the_model():
    assert set(SCHEMA["properties"]) == set(JobFile.model_fields)
    assert {"name", "as"} == set(SCHEMA["$defs"]["SecretSpec"]["properties"])
    assert {"latency", "p99"} < set(SCHEMA["$defs"]["SloSpec"]["properties"])


@pytest.mark.parametrize("data", [SIMPLE, FULL, ROLES])
def test_good_files_are_valid(data):
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
def test_bad_files_are_not(change):
    assert not validator.is_valid(SIMPLE | change)
    with pytest.raises(Invalid):
        check(SIMPLE | change)


@pytest.mark.parametrize("data", [{}, {"gpus": 1}, {"command": "x"}, {"command": "x", "roles": [{"name": "a"}]}])
def test_what_is_missing_is_noticed(data):
    assert not validator.is_valid(data)


@given(damaged_files())
def test_what_is_accepted_is_valid(data):
    """An editor must not warn of what works. (Null is accepted for what is left out; editors may well warn of that.)"""
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
def test_amounts_with_units_agree(text):
    for name in ("estimate", "memory", "cpu"):
        try:
            check(SIMPLE | {name: text})
        except Invalid:
            continue
        assert validator.is_valid(SIMPLE | {name: text}), name


def test_the_file_beside_the_examples_is_this_schema(repository):
    """Write it with: python -m gpusquad.spec.schema > examples/jobs/job.schema.json"""
    assert (repository / "examples/jobs/job.schema.json").read_text(encoding="utf-8") == schema_text()


def test_each_call_gives_a_copy():
    before = copy.deepcopy(json_schema())
    json_schema()["properties"].clear()
    assert json_schema() == before


def test_the_example_files_are_valid(repository):
    for path in (repository / "examples/jobs").glob("*.yaml"):
        validator.validate(load(path))
