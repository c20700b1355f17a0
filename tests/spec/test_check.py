"""Tests for checking job files: accepted values and error messages."""

import math

import pytest
from hypothesis import given

from gpusquad.model.errors import Invalid
from gpusquad.spec.check import check, spec_from_dict, spec_to_dict
from gpusquad.spec.expand import expand
from tests.spec.data import FULL, ROLES, SIMPLE, damaged_files, json_like


def check_error(data) -> Invalid:
    with pytest.raises(Invalid) as caught:
        check(data)
    return caught.value


@pytest.mark.parametrize("data", [SIMPLE, FULL, ROLES])
def test_valid_files_are_accepted(data):
    assert check(data).command == (data["command"] if isinstance(data["command"], str) else tuple(data["command"]))


def test_values_are_kept_as_written():
    file = check(FULL)
    assert (file.memory, file.limit, file.cpu) == ("16GiB", 7200, "500m")


def test_short_forms_are_expanded():
    file = check(SIMPLE | {"secrets": ["KEY"], "after": ["prepare"], "retries": 2, "slo": {"p99": "20ms"}})
    assert file.secrets[0].env_name == "KEY"
    assert (file.after[0].job, file.after[0].on) == ("prepare", "success")
    assert file.retries is not None
    assert (file.retries.count, file.retries.on) == (2, ("failed", "lost"))
    assert file.slo is not None
    assert file.slo.latency == "20ms"


def test_null_equals_an_omitted_field():
    nothing = {"estimate": None, "slo": {"deadline": None}, "name": None, "roles": None, "env": None, "after": None}
    assert check(SIMPLE | nothing) == check(SIMPLE | {"slo": {}})


@pytest.mark.parametrize("name", ["träin", "训练", "👩\u200d🔬", "a b", "x" * 128, "نام\u200cها", "no\u00a0break"])
def test_names_may_be_any_unicode(name):
    assert check(SIMPLE | {"name": name}).name == name


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        # field names
        ({"gpuss": 1}, "gpuss", "did you mean 'gpus'"),
        ({"frobnicate": 1}, "frobnicate", "known here"),
        ({"slo": {"latancy": 1}}, "slo.latancy", "did you mean 'latency'"),
        ({"checkpoint": {"evry": 1}}, "checkpoint.evry", "did you mean 'every'"),
        ({"a\nb": 1}, "'a\\nb'", "not a known field"),
        ({3: 1}, "3", "not a known field"),
        # numbers and units, as everywhere in gpusquad
        ({"gpus": 0.5}, "gpus", "share: {sm: 0.5}"),
        ({"gpus": -1}, "gpus", "below 0"),
        ({"gpus": "4"}, "gpus", "expected a number"),
        ({"gpus": True}, "gpus", "must be a number"),
        ({"gpus": [1]}, "gpus", "must be a number"),
        ({"gpus": math.nan}, "gpus", "not a finite"),
        ({"gpus": 10**5000}, "gpus", "larger than"),
        ({"count": 10_001}, "count", "above 10000"),
        ({"count": 2, "min": 3}, "count", "outside 3 to 2"),
        ({"estimate": "2 parsecs"}, "estimate", "'parsecs' is not a unit"),
        ({"estimate": -1}, "estimate", "below 0"),
        ({"estimate": {}}, "estimate", "must be a number or a text"),
        ({"limit": "1e300d"}, "limit", "above"),
        ({"memory": "lots"}, "memory", "12GB or 80GiB"),
        ({"cpu": "half"}, "cpu", "500m"),
        ({"slo": {"throughput": 0}}, "slo.throughput", "is zero"),
        ({"slo": {"throughput": "0/s"}}, "slo.throughput", "is zero"),
        ({"slo": {"throughput": "5/min"}}, "slo.throughput", "5 or 5/s"),
        ({"slo": {"throughput": [5]}}, "slo.throughput", "must be a number"),
        ({"slo": {"availability": 1.5}}, "slo.availability", "above 1"),
        ({"slo": {"p99": "20mss"}}, "slo.p99", "not a unit"),
        ({"slo": {"p99": "20ms", "latency": "1s"}}, "slo.p99", "same field as latency"),
        ({"slo": 5}, "slo", "must be an object"),
        ({"checkpoint": {"grace": "2d"}}, "checkpoint.grace", "more than a day"),
        ({"checkpoint": {"every": 0}}, "checkpoint.every", "is zero"),
        ({"checkpoint": {"preemptible": "yes"}}, "checkpoint.preemptible", "true or false"),
        ({"version": 2}, "version", "write version: 1"),
        ({"version": True}, "version", "write version: 1"),
        # combinations of fields
        ({"share": {"sm": 0.5}}, "share", "not both"),
        ({"gpus": None, "share": {"sm": 2}}, "share.sm", "more than one GPU"),
        ({"gpus": None, "share": {"sm": 25}}, "share.sm", "did you mean 25%?"),
        ({"gpus": None, "share": {"sm": "12.5"}}, "share.sm", "did you mean 12.5%?"),
        ({"gpus": None, "share": {}}, "share", "requests no resources"),
        ({"gpus": None, "share": {"isolation": "isolated"}}, "share", "requests no resources"),
        ({"gpus": None, "share": {"sm": 1, "isolation": "mps"}}, "share.isolation", "shared, isolated"),
        ({"gpus": None}, "gpus", "no other resource is requested"),
        ({"card": "n/0", "gpus": 2}, "card", "one card"),
        ({"roles": [{"name": "a", "cpu": 1}]}, "gpus", "cannot be combined with roles"),
        # texts
        ({"name": "x" * 129}, "name", "use at most 128"),
        ({"name": "a\nb"}, "name", "control character U+000A"),
        ({"name": "a\u202eb"}, "name", "control character U+202E"),
        ({"name": "a\0b"}, "name", "NUL"),
        ({"name": "\ud800"}, "name", "half a character"),
        ({"name": 3}, "name", "put it in quotes"),
        ({"queue": "a\tb"}, "queue", "cannot be printed"),
        ({"workdir": "/a\0"}, "workdir", "NUL"),
        ({"workdir": "/" * 5000}, "workdir", "use at most 4096"),
        ({"priority": "hihg"}, "priority", "did you mean 'high'"),
        ({"priority": 3.5}, "priority", "neither a priority class nor an integer"),
        ({"priority": 2**31}, "priority", "too large"),
        ({"gpu_model": []}, "gpu_model", "is empty"),
        ({"gpu_model": ["A", 3]}, "gpu_model[1]", "must be a text"),
        # commands and variables
        ({"command": None}, "command", "write for example command:"),
        ({"command": []}, "command", "is empty"),
        ({"command": " "}, "command", "is empty"),
        ({"command": ["", "x"]}, "command[0]", "is empty"),
        ({"command": ["train", 3]}, "command[1]", "put it in quotes"),
        ({"command": ["a\0"]}, "command[0]", "NUL"),
        ({"command": "x" * 30_001}, "command", "use at most 30000"),
        ({"command": ["x"] * 5000}, "command", "use at most 4096"),
        ({"command": {"a": 1}}, "command", "must be a text or a list"),
        ({"env": {"A-B": "x"}}, "env.A-B", "not a valid variable name"),
        ({"env": {"1A": "x"}}, "env.1A", "not a valid variable name"),
        ({"env": {"A": 1}}, "env.A", "put it in quotes"),
        ({"env": {"A": "\0"}}, "env.A", "NUL"),
        ({"env": {"GPUSQUAD_JOB": "x"}}, "env.GPUSQUAD_JOB", "set by gpusquad"),
        ({"env": {"CUDA_VISIBLE_DEVICES": "0"}}, "env.CUDA_VISIBLE_DEVICES", "set by gpusquad"),
        ({"env": ["A=1"]}, "env", "must map names to values"),
        ({"env": {f"A{i}": "" for i in range(2000)}}, "env", "use at most 1024"),
        # secrets
        ({"secrets": [{"name": "A", "value": "x"}]}, "secrets[0].value", "write only the name"),
        ({"secrets": ["a-b"]}, "secrets[0].as", "{name: a-b, as: A_NAME}"),
        ({"secrets": ["../x"]}, "secrets[0].name", "not a valid secret name"),
        ({"secrets": ["A", "A"]}, "secrets[1]", "also set by secrets[0]"),
        ({"secrets": ["A"], "env": {"A": ""}}, "secrets[0]", "also set by env"),
        ({"secrets": {"A": "x"}}, "secrets", "must be a list"),
        ({"secrets": [3]}, "secrets[0]", "the name of a secret"),
        # other lists
        ({"after": "prepare"}, "after", "put it in [ ]"),
        ({"after": [{"job": "a", "on": "sucess"}]}, "after[0].on", "did you mean 'success'"),
        ({"after": [{"on": "any"}]}, "after[0].job", "is missing"),
        ({"after": [" "]}, "after[0].job", "is empty"),
        ({"after": ["x"] * 300}, "after", "use at most 256"),
        ({"retries": -1}, "retries.count", "below 0"),
        ({"retries": 101}, "retries.count", "above 100"),
        ({"retries": {"backoff": 1}}, "retries.count", "is missing"),
        ({"retries": {"count": 1, "on": []}}, "retries.on", "is empty"),
        ({"retries": True}, "retries", "must be a number"),
        ({"notify": ["succeded"]}, "notify[0]", "did you mean 'succeeded'"),
        # parameters and sweeps
        ({"params": {"a b": 1}}, "params.a b", "not a valid parameter name"),
        ({"params": {"a": [1]}}, "params.a", "must be a text"),
        ({"params": {"a": math.inf}}, "params.a", "put it in quotes"),
        ({"params": [1]}, "params", "must map names to values"),
        ({"sweep": {}}, "sweep", "is empty"),
        ({"sweep": {"a": 1}}, "sweep.a", "must be a list"),
        ({"sweep": {"a": []}}, "sweep.a", "is empty"),
        ({"sweep": {"a": [1, None]}}, "sweep.a[1]", "must be a text"),
        ({"sweep": {"a": [1], "zip": {"a": [1]}}}, "sweep.zip.a", "set twice"),
        ({"sweep": {"zip": {"a": [1], "b": [1, 2]}}}, "sweep.zip", "different lengths (a 1, b 2)"),
        ({"sweep": {"zip": {}}}, "sweep.zip", "is empty"),
        ({"sweep": {"a": list(range(101)), "b": list(range(100))}}, "sweep", "expands to 10100 jobs"),
        ({"sweep": [{"a": 1}, {"a": [2]}]}, "sweep[1].a", "must be a text"),
        ({"sweep": []}, "sweep", "is empty"),
        ({"sweep": [{f"a{i}": 1} for i in range(300)]}, "sweep", "300 parameters"),
        ({"command": "echo ${HOME}"}, "command", "write $${HOME} to leave it to the shell"),
        ({"command": ["x", "${lr}"], "params": {"lrr": 1}}, "command[1]", "did you mean ${lrr}?"),
        ({"env": {"A": "${sweep.index}"}}, "env.A", "not a parameter"),
        ({"name": "a${b"}, "name", "not closed"),
    ],
)  # fmt: skip
def test_error_names_the_field_and_the_problem(change, field, words):
    error = check_error(SIMPLE | change)
    assert error.field == field
    assert words in str(error)


@pytest.mark.parametrize(
    ("roles", "field", "words"),
    [
        ([{"name": "a", "gpus": 1}, {"name": "b", "gpus": -1}], "roles[1].gpus", "below 0"),
        ([{"name": "a", "gpus": 1}, {"name": "a", "gpus": 1}], "roles[1].name", "used twice"),
        ([{"gpus": 1}], "roles[0].name", "is missing"),
        ([{"nme": "a", "gpus": 1}], "roles[0].nme", "did you mean 'name'"),
        ([{"name": "a"}], "roles[0].gpus", "no other resource is requested"),
        ([{"name": "a", "gpus": 1, "env": {"=": ""}}], "roles[0].env.=", "not a valid variable name"),
        ([{"name": "a", "cpu": 1, "count": 9000}, {"name": "b", "cpu": 1, "count": 9000}], "roles", "18000 tasks"),
        ([], "roles", "is empty"),
        ([3], "roles[0]", "must be an object"),
        ({"name": "a"}, "roles", "must be a list"),
        ([{"name": "a", "cpu": 1}] * 300, "roles", "use at most 256"),
    ],
)  # fmt: skip
def test_error_in_roles_names_the_field_and_the_problem(roles, field, words):
    error = check_error({"command": "x", "roles": roles})
    assert error.field == field
    assert words in str(error)


def test_every_role_needs_a_command():
    error = check_error({"roles": [{"name": "a", "gpus": 1, "command": "x"}, {"name": "b", "gpus": 1}]})
    assert error.field == "roles[1].command"
    assert error.cure


@pytest.mark.parametrize("data", [None, [], 3, "gpus: 1", {}])
def test_data_that_is_not_a_job_file_is_refused(data):
    check_error(data)


def test_error_messages_stay_short_when_the_value_is_large():
    deep: list = []
    for _ in range(900):
        deep = [deep]
    for value in (deep, ["x" * 10**6], {"x" * 10**6: 1}, "x" * 10**6):
        for field in ("gpus", "estimate", "name", "command", "env", "sweep", "slo", "roles", "params"):
            assert len(str(check_error(SIMPLE | {field: value}))) < 1000


@pytest.mark.parametrize(
    ("given", "kept"), [(1000, "high"), ("1000", "high"), (-7, "-7"), (" 5 ", "5"), ("low", "low")]
)
def test_integer_priority_is_the_class_of_its_value(given: int | str, kept: str):
    (spec,) = expand(check(SIMPLE | {"priority": given}))
    assert spec.priority == kept


def test_sweep_may_fill_in_integer_priorities():
    swept = expand(check(SIMPLE | {"priority": "${p}", "sweep": {"p": [5, 1000]}}))
    assert [spec.priority for spec in swept] == ["5", "high"]


def test_placeholder_is_accepted_in_place_of_a_number():
    file = check(SIMPLE | {"gpus": "${n}", "count": "${n}", "priority": "${p}", "params": {"n": 2, "p": "low"}})
    (spec,) = expand(file)
    assert (spec.gpus, spec.count, spec.priority) == (2, 2, "low")


def assert_accepted_or_invalid(data) -> None:
    """Checks that only ``Invalid`` is raised, and that an accepted file expands to specs that round-trip."""
    error = None
    try:
        for spec in expand(check(data)):
            assert spec_from_dict(spec_to_dict(spec)) == spec
    except Invalid as caught:
        error = caught
    if error:
        assert error.field
        assert error.problem
        assert len(str(error).encode()) < 2000


@given(json_like)
def test_arbitrary_data_is_accepted_or_raises_invalid(data):
    assert_accepted_or_invalid(data)


@given(damaged_files())
def test_damaged_files_are_accepted_or_raise_invalid(data):
    assert_accepted_or_invalid(data)
