"""Sweeps and placeholders."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.spec.check import check, spec_from_dict, spec_to_dict
from gpusquad.spec.expand import expand
from gpusquad.spec.placeholders import escape
from tests.spec.data import FULL, ROLES, SIMPLE


def jobs(change: dict, params: dict | None = None):
    return expand(check(SIMPLE | change), params)


def arguments(change: dict, params: dict | None = None) -> list:
    return [spec.command for spec in jobs(change, params)]


def refused(change: dict, params: dict | None = None) -> Invalid:
    with pytest.raises(Invalid) as caught:
        jobs(change, params)
    return caught.value


def test_a_plain_file_is_one_job():
    (spec,) = expand(check(SIMPLE))
    assert spec.command == ("python3", "train.py")
    assert spec_to_dict(spec) == SIMPLE


def test_placeholders_are_filled_everywhere():
    specs = expand(check(FULL))
    assert [spec.name for spec in specs] == ["träin-0.1"] * 3 + ["träin-0.2"] * 3
    assert [spec.env["SEED"] for spec in specs] == list("012345")
    assert {(spec.estimate, spec.workdir) for spec in specs} == {("2h", "/data/2")}
    assert "params" not in spec_to_dict(specs[0])


def test_the_last_name_of_a_sweep_changes_fastest():
    sweep = {"a": [1, 2], "b": ["x", "y"]}
    assert arguments({"command": "${a}${b}", "sweep": sweep}) == ["1x", "1y", "2x", "2y"]


def test_zip_goes_side_by_side():
    assert arguments({"command": "${a}${b}", "sweep": {"zip": {"a": [1, 2], "b": ["x", "y"]}}}) == ["1x", "2y"]


def test_zip_crosses_what_stands_beside_it():
    sweep = {"zip": {"a": [1, 2], "b": ["x", "y"]}, "c": ["-", "+"]}
    assert arguments({"command": "${a}${b}${c}", "sweep": sweep}) == ["1x-", "2y-", "1x+", "2y+"]


def test_a_parameter_may_be_called_zip():
    assert arguments({"command": "${zip}", "sweep": {"zip": [1, 2]}}) == ["1", "2"]


def test_a_list_of_points_falls_back_to_the_defaults():
    change = {"command": "${a}${b}", "params": {"b": "z"}, "sweep": [{"a": 1}, {"a": 2, "b": "y"}]}
    assert arguments(change) == ["1z", "2y"]


def test_scalars_read_as_in_the_file():
    values = {"t": True, "f": False, "i": 3, "x": 1e-05, "s": "a b"}
    assert arguments({"command": "${t} ${f} ${i} ${x} ${s}", "params": values}) == ["true false 3 1e-05 a b"]


def test_given_parameters_come_before_the_defaults():
    assert arguments({"command": "${a}", "params": {"a": 1}}, {"a": "x"}) == ["x"]


def test_a_parameter_without_a_value_must_be_given():
    change = {"command": "${a}", "params": {"a": None}}
    assert refused(change).field == "params.a"
    assert arguments(change, {"a": 1}) == ["1"]


def test_numbers_may_come_as_text_from_the_command_line():
    change = {"gpus": "${n}", "slo": {"throughput": "${n}", "availability": "${r}"}, "params": {"n": 1, "r": "1%"}}
    (spec,) = jobs(change, {"n": "4", "r": "0.5"})
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
def test_what_is_wrong_is_named(change, params, field, words):
    error = refused(change, params)
    assert error.field == field
    assert words in str(error)


def test_values_are_not_filled_again():
    assert arguments({"command": "${a}", "params": {"a": "${b}", "b": 1}}) == ["${b}"]


def test_dollars_of_the_shell_are_left_alone():
    for text in ("echo $HOME $(seq 3) $$ $1", "$", "{}", "$ {a}"):
        assert arguments({"command": text}) == [text]


@pytest.mark.parametrize(
    ("text", "filled"),
    [("$${a}", "${a}"), ("$$${a}", "$${a}"), ("${a}$${a}", "1${a}"), ("${ a }", "1"), ("$${", "${"), ("${a}}", "1}")],
)
def test_escapes(text, filled):
    assert arguments({"command": text, "params": {"a": 1}}) == [filled]


@given(st.text(st.sampled_from("${}a b"), min_size=1).filter(str.strip) | st.text(min_size=1).map(lambda t: t + "x"))
def test_an_escaped_text_comes_out_as_it_went_in(text):
    try:
        check(SIMPLE | {"command": "x" + text.replace("$", "")})
    except Invalid:
        return  # NUL and the like are refused with or without dollars
    assert arguments({"command": escape(text), "params": {"a": 1}}) == [text]


@pytest.mark.parametrize("data", [SIMPLE, FULL, ROLES])
def test_specs_survive_the_round_trip_through_json(data):
    for spec in expand(check(data)):
        assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec


def test_a_spec_is_a_job_file_too():
    """So that a job can be shown as a file and submitted again, where no text holds ``${``."""
    for spec in expand(check(FULL)):
        assert expand(check(spec_to_dict(spec))) == [spec]


def test_specs_cannot_be_changed():
    (spec,) = expand(check(SIMPLE))
    with pytest.raises(ValueError, match="frozen"):
        spec.name = "other"


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 5)), max_size=4, unique_by=lambda axis: axis[0]))
def test_a_sweep_makes_every_combination_once(axes):
    sweep = {name: list(range(size)) for name, size in axes}
    text = "-".join(f"${{{name}}}" for name in sweep)
    made = arguments({"command": "x" + text} | ({"sweep": sweep} if sweep else {}))
    count = 1
    for _, size in axes:
        count *= size
    assert len(made) == len(set(made)) == count
