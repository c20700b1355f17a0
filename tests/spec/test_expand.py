"""Tests for sweeps and placeholders."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.spec.check import check, spec_from_dict, spec_to_dict
from gpusquad.spec.expand import expand
from gpusquad.spec.placeholders import escape
from tests.spec.data import FULL, ROLES, SIMPLE


def expanded(change: dict, params: dict | None = None):
    return expand(check(SIMPLE | change), params)


def commands(change: dict, params: dict | None = None) -> list:
    return [spec.command for spec in expanded(change, params)]


def expand_error(change: dict, params: dict | None = None) -> Invalid:
    with pytest.raises(Invalid) as caught:
        expanded(change, params)
    return caught.value


def test_file_without_sweep_expands_to_one_job():
    (spec,) = expand(check(SIMPLE))
    assert spec.command == ("python3", "train.py")
    assert spec_to_dict(spec) == SIMPLE


def test_placeholders_are_filled_in_all_fields():
    specs = expand(check(FULL))
    assert [spec.name for spec in specs] == ["träin-0.1"] * 3 + ["träin-0.2"] * 3
    assert [spec.env["SEED"] for spec in specs] == list("012345")
    assert {(spec.estimate, spec.workdir) for spec in specs} == {("2h", "/data/2")}
    assert "params" not in spec_to_dict(specs[0])


def test_last_parameter_of_a_sweep_changes_fastest():
    sweep = {"a": [1, 2], "b": ["x", "y"]}
    assert commands({"command": "${a}${b}", "sweep": sweep}) == ["1x", "1y", "2x", "2y"]


def test_zip_pairs_its_lists():
    assert commands({"command": "${a}${b}", "sweep": {"zip": {"a": [1, 2], "b": ["x", "y"]}}}) == ["1x", "2y"]


def test_zip_is_combined_with_every_other_sweep_value():
    sweep = {"zip": {"a": [1, 2], "b": ["x", "y"]}, "c": ["-", "+"]}
    assert commands({"command": "${a}${b}${c}", "sweep": sweep}) == ["1x-", "2y-", "1x+", "2y+"]


def test_parameter_may_be_named_zip():
    assert commands({"command": "${zip}", "sweep": {"zip": [1, 2]}}) == ["1", "2"]


def test_sweep_points_use_default_parameters():
    change = {"command": "${a}${b}", "params": {"b": "z"}, "sweep": [{"a": 1}, {"a": 2, "b": "y"}]}
    assert commands(change) == ["1z", "2y"]


def test_scalars_are_formatted_as_in_the_file():
    values = {"t": True, "f": False, "i": 3, "x": 1e-05, "s": "a b"}
    assert commands({"command": "${t} ${f} ${i} ${x} ${s}", "params": values}) == ["true false 3 1e-05 a b"]


def test_given_parameters_override_the_defaults():
    assert commands({"command": "${a}", "params": {"a": 1}}, {"a": "x"}) == ["x"]


def test_a_parameter_without_a_value_must_be_given():
    change = {"command": "${a}", "params": {"a": None}}
    assert expand_error(change).field == "params.a"
    assert commands(change, {"a": 1}) == ["1"]


def test_number_parameters_may_be_given_as_text():
    change = {"gpus": "${n}", "slo": {"throughput": "${n}", "availability": "${r}"}, "params": {"n": 1, "r": "1%"}}
    (spec,) = expanded(change, {"n": "4", "r": "0.5"})
    assert spec.slo is not None
    assert (spec.gpus, spec.slo.throughput, spec.slo.availability) == (4, 4, 0.5)


@pytest.mark.parametrize(
    ("change", "params", "field", "words"),
    [
        ({"params": {"lr": 1}}, {"lrr": 1}, "params.lrr", "did you mean 'lr'"),
        ({"sweep": {"lr": [1]}}, {"lr": 1}, "params.lr", "set by the sweep"),
        ({"params": {"lr": 1}}, {"lr": None}, "params.lr", "must be a text"),
        ({"params": {"lr": 1}}, {"lr": [1]}, "params.lr", "must be a text"),
        ({"params": {"lr": 1}}, {"lr": "\0"}, "params.lr", "NUL"),
        ({"gpus": "${n}", "params": {"n": 1}}, {"n": "many"}, "gpus", "expected a number"),
        ({"gpus": "${n}", "params": {"n": 1}}, {"n": "1_0"}, "gpus", "expected a number"),
        ({"gpus": "${n}", "sweep": {"n": [1, -1]}}, None, "gpus", "in point 1 of the sweep (n=-1)"),
        ({"estimate": "${n}h", "params": {"n": "x"}}, None, "estimate", "cannot read 'xh'"),
        ({"estimate": "$${n}"}, None, "estimate", "cannot read '${n}'"),
        ({"checkpoint": {"grace": "${n}"}, "params": {"n": "3d"}}, None, "checkpoint.grace", "more than a day"),
        ({"name": "${n}", "params": {"n": "x" * 129}}, None, "name", "use at most 128"),
        ({"name": "${n}", "params": {"n": "a\nb"}}, None, "name", "control character"),
        ({"command": "${n}", "params": {"n": ""}}, None, "command", "is empty"),
        ({"command": "${a}", "sweep": [{"a": 1}, {"b": 1}]}, None, "command", "${a} is not a parameter"),
        ({"command": "${n}" * 100, "params": {"n": "x" * 4000}}, None, "command", "grows to 400000"),
        ({"command": ["${n}"] * 4000, "params": {"n": "x" * 4000}}, None, "command[262]", "grows to"),
        ({"command": "x" * 20_000, "sweep": {"n": list(range(10_000))}}, None, "sweep", "expands to 10000 jobs"),
        ({"command": ["${n}"] * 9, "params": {"n": "x" * 1000}, "sweep": {"i": list(range(10_000))}}, None,
         "command[4]", "in point 7456 of the sweep"),
    ],
)  # fmt: skip
def test_error_names_the_field_and_the_problem(change, params, field, words):
    error = expand_error(change, params)
    assert error.field == field
    assert words in str(error)


def test_placeholders_in_parameter_values_are_not_filled():
    assert commands({"command": "${a}", "params": {"a": "${b}", "b": 1}}) == ["${b}"]


def test_shell_dollars_are_left_unchanged():
    for text in ("echo $HOME $(seq 3) $$ $1", "$", "{}", "$ {a}"):
        assert commands({"command": text}) == [text]


@pytest.mark.parametrize(
    ("text", "filled"),
    [("$${a}", "${a}"), ("$$${a}", "$${a}"), ("${a}$${a}", "1${a}"), ("${ a }", "1"), ("$${", "${"), ("${a}}", "1}")],
)
def test_escaped_placeholders_are_unescaped(text, filled):
    assert commands({"command": text, "params": {"a": 1}}) == [filled]


@given(st.text(st.sampled_from("${}a b"), min_size=1).filter(str.strip) | st.text(min_size=1).map(lambda t: t + "x"))
def test_escaped_text_round_trips_unchanged(text):
    try:
        check(SIMPLE | {"command": "x" + text.replace("$", "")})
    except Invalid:
        return  # NUL and similar characters are refused with or without dollars
    assert commands({"command": escape(text), "params": {"a": 1}}) == [text]


@pytest.mark.parametrize("data", [SIMPLE, FULL, ROLES])
def test_specs_round_trip_through_json(data):
    for spec in expand(check(data)):
        assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec


def test_spec_is_a_valid_job_file():
    """A job can be shown as a file and submitted again if none of its texts contains ``${``."""
    for spec in expand(check(FULL)):
        assert expand(check(spec_to_dict(spec))) == [spec]


def test_specs_cannot_be_changed():
    (spec,) = expand(check(SIMPLE))
    with pytest.raises(ValueError, match="frozen"):
        spec.name = "other"


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 5)), max_size=4, unique_by=lambda axis: axis[0]))
def test_sweep_expands_to_every_combination_once(axes):
    sweep = {name: list(range(size)) for name, size in axes}
    text = "-".join(f"${{{name}}}" for name in sweep)
    expanded_commands = commands({"command": "x" + text} | ({"sweep": sweep} if sweep else {}))
    count = 1
    for _, size in axes:
        count *= size
    assert len(expanded_commands) == len(set(expanded_commands)) == count
