"""Tests for ``auto`` values, which the service chooses."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.spec.auto import auto_fields, restore_auto, with_choices
from gpusquad.spec.check import check, spec_from_dict, spec_to_dict
from gpusquad.spec.convert import task_commands, to_job
from gpusquad.spec.expand import expand
from gpusquad.spec.schema import json_schema
from tests.spec.data import ROLES, SIMPLE

jsonschema_rs = pytest.importorskip("jsonschema_rs")
validator = jsonschema_rs.Draft202012Validator(json_schema())
AUTO = SIMPLE | {"gpus": "auto", "gpu_memory": "auto", "cpu": "auto", "memory": "auto"}


def spec_of(data: dict):
    return expand(check(data))[0]


def test_auto_is_accepted_and_stored():
    assert validator.is_valid(AUTO)
    spec = spec_of(AUTO)
    assert auto_fields(spec) == ("gpus", "gpu_memory", "cpu", "memory")
    assert spec_from_dict(spec_to_dict(spec)) == spec
    assert auto_fields(spec_of(SIMPLE)) == ()


def test_auto_means_one_gpu_of_any_size_until_it_is_chosen():
    job = to_job(spec_of(AUTO), "a", 0, "t", "u")
    assert (job.gpus, job.roles[0].request.min_card_memory_bytes) == (1, 0)
    assert len(task_commands(spec_of(AUTO))) == 1


def test_gang_may_leave_everything_open():
    spec = spec_of(AUTO | {"count": 4})
    job = to_job(spec, "a", 0, "t", "u")
    request = job.roles[0].request
    assert (job.tasks, job.gpus, request.cpu_milli, request.memory_bytes) == (4, 4, 0, 0)
    assert len(task_commands(spec)) == 4


def test_parameter_may_have_the_value_auto():
    file = check(SIMPLE | {"gpus": "${n}", "params": {"n": "auto"}})
    assert auto_fields(expand(file)[0]) == ("gpus",)
    assert expand(file, {"n": 4})[0].gpus == 4


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"gpus": "automatic"}, "gpus", "write auto"),
        ({"gpus": "auto", "min": 2}, "gpus", "fixed number of tasks"),
        ({"gpus": "auto", "max": 4}, "gpus", "fixed number of tasks"),
        ({"gpus": "auto", "card": "n/0"}, "gpus", "named card"),
        ({"gpus": "auto", "share": {"sm": 0.5}}, "share", "not both"),
        ({"gpus": None, "cpu": 1, "gpu_memory": "auto"}, "gpu_memory", "whole GPUs"),
        ({"gpus": 0, "gpu_memory": "auto"}, "gpu_memory", "whole GPUs"),
        ({"cpu": "automatic"}, "cpu", "cannot read"),
        (ROLES | {"gpus": None, "cpu": "auto"}, "cpu", "in each role"),
        (ROLES | {"gpus": None, "roles": [{"name": "a", "gpus": "auto"}]}, "roles[0].gpus", "write a number"),
        (
            ROLES | {"gpus": None, "roles": [{"name": "a", "cpu": 1, "gpu_memory": "auto"}]},
            "roles[0].gpu_memory",
            "whole GPUs",
        ),
        (ROLES | {"gpus": None, "gpu_memory": "auto"}, "gpu_memory", "whole GPUs"),
    ],
)
def test_auto_is_refused_with_a_cure_where_it_is_not_supported(change, field, words):
    with pytest.raises(Invalid) as caught:
        spec_of(SIMPLE | change)
    assert caught.value.field == field
    assert words in str(caught.value)
    assert caught.value.cure


numbers = st.one_of(st.just("auto"), st.integers(1, 4096))
sizes = st.one_of(st.none(), st.just("auto"), st.integers(0, 2**50), st.integers(1, 900).map(lambda gib: f"{gib}GiB"))
spans = st.one_of(st.integers(1, 10**6), st.integers(1, 900).map(lambda hours: f"{hours}h"))
expectations = st.fixed_dictionaries(
    {"memory": st.integers(1, 2**50)},
    optional={"run": spans, "by_gpus": st.dictionaries(st.integers(1, 4096).map(str), spans, min_size=1, max_size=4)},
)


OPEN_ROLES = ROLES | {
    "roles": [
        {"name": "learner", "gpus": 4, "cpu": "auto", "gpu_memory": "auto"},
        {"name": "actor", "count": 2, "cpu": "auto", "memory": "auto"},
    ]
}


def test_roles_may_leave_their_requests_open():
    assert validator.is_valid(OPEN_ROLES)
    spec = spec_of(OPEN_ROLES)
    assert auto_fields(spec) == ("roles[0].gpu_memory", "roles[0].cpu", "roles[1].cpu", "roles[1].memory")
    assert spec_from_dict(spec_to_dict(spec)) == spec
    learner, actor = (role.request for role in to_job(spec, "a", 0, "t", "u").roles)
    assert (learner.gpus, learner.cpu_milli, learner.min_card_memory_bytes) == (4, 0, 0)
    assert actor.cpu_milli, "a task without GPUs must request something"
    assert len(task_commands(spec)) == 3


def test_choices_for_roles_fill_and_restore_their_fields():
    spec = spec_of(OPEN_ROLES)
    values = dict(zip(auto_fields(spec), ("40GiB", 8, 0.5, None), strict=True))
    chosen = with_choices(spec, **values)
    assert auto_fields(chosen) == ()
    assert chosen.roles is not None
    assert [(role.cpu, role.memory, role.gpu_memory) for role in chosen.roles] == [
        (8, None, "40GiB"),
        (0.5, None, None),
    ]
    stored = spec_to_dict(chosen)
    assert spec_from_dict(stored) == chosen
    assert restore_auto(stored, spec) == spec_to_dict(spec)


@given(numbers, sizes, st.none() | expectations)
def test_specs_with_auto_round_trip_through_json(gpus, gpu_memory, expect):
    data = SIMPLE | {"gpus": gpus, "gpu_memory": gpu_memory, "expect": expect}
    spec = spec_of(data)
    restored = spec_from_dict(json.loads(json.dumps(spec_to_dict(spec))))
    assert restored == spec
    assert spec_to_dict(restored) == spec_to_dict(spec)
    assert validator.is_valid(spec_to_dict(spec))


@given(numbers, sizes, st.integers(1, 64), st.integers(1, 900))
def test_spec_with_choices_has_no_auto_fields_and_restores_the_original(gpus, gpu_memory, chosen, gib):
    spec = spec_of(SIMPLE | {"gpus": gpus, "gpu_memory": gpu_memory})
    values = {"gpus": chosen, "gpu_memory": f"{gib}GiB"}
    resolved = with_choices(spec, **{name: values[name] for name in auto_fields(spec)})
    assert auto_fields(resolved) == ()
    stored = spec_to_dict(resolved)
    assert spec_from_dict(stored) == resolved
    assert restore_auto(stored, spec) == spec_to_dict(spec)
    assert (restore_auto(stored, resolved) == spec_to_dict(spec)) == (resolved == spec)


@pytest.mark.parametrize("field", ["cpu", "memory"])
def test_job_without_gpus_may_leave_its_only_request_open(field):
    spec = spec_of({"command": ["true"], field: "auto"})
    request = to_job(spec, "a", 0, "t", "u").roles[0].request
    assert request.gpus == 0
    assert request.cpu_milli or request.memory_bytes
