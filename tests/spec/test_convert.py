"""Tests for converting a job spec for the scheduler and the engines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.cluster import GIB
from gpusquad.model.codec import job_from_dict, job_to_dict
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Checkpoint, Job, OfflineEstimate, Profile, Request, Role, Share, Slo
from gpusquad.spec.check import check
from gpusquad.spec.convert import DEFAULT_GRACE_S, RetryRule, grace_s, placed_roles, retry_rule, task_commands, to_job
from gpusquad.spec.expand import expand
from tests.spec.data import FULL, ROLES, SIMPLE

NOW_US = 1_790_000_000_123_457


def spec_of(data: dict):
    return expand(check(data))[0]


def job_of(data: dict) -> Job:
    return to_job(spec_of(data), "job-1", NOW_US, "vision", "ada")


def test_to_job_converts_every_field():
    assert job_of(FULL) == Job(
        id="job-1", name="träin-0.1", tenant="vision", user="ada", queue="nightly", priority="high", lane="batch",
        app="resnet", submitted_us=NOW_US, estimate_us=7200 * 10**6, limit_us=7200 * 10**6,
        roles=(Role("task", 4, Request(2, None, 500, 16 * GIB, ("A100", "H100"), 40 * 10**9), 2, 8),),
        slo=Slo(NOW_US + 6 * 3600 * 10**6, 20_000, 100.0, 0.9990000000000001),
        profile=Profile(0.5, 8 * 10**9, 0.1, "measured"),
        checkpoint=Checkpoint(600 * 10**6, 30 * 10**6, False), command="python3 train.py --lr 0.1",
        expected=OfflineEstimate(7200 * 10**6, 10800 * 10**6, 12 * GIB, ((1, 7200 * 10**6), (8, 1200 * 10**6))),
    )  # fmt: skip


def test_to_job_converts_roles():
    learner, actor = job_of(ROLES).roles
    assert (learner.name, learner.count, learner.request) == ("learner", 1, Request(4))
    assert (actor.name, actor.count) == ("actor", 16)
    assert actor.request == Request(share=Share(2 * GIB, 100, "isolated"), cpu_milli=4000)


def test_to_job_uses_the_given_tenant_instead_of_the_file():
    assert job_of(SIMPLE | {"tenant": "other"}).tenant == "vision"


@pytest.mark.parametrize(
    ("change", "command"),
    [
        ({"command": "set -e\n\tpython3  train.py"}, "set -e python3 train.py"),
        ({"command": ["sh", "-c", "a\nb"]}, "sh -c a b"),
        ({"command": "é\u200d x" * 200}, ("é x" * 200)[:256]),
        (ROLES | {"gpus": None}, "python3 learn.py"),
    ],
)
def test_command_is_shown_on_one_line(change, command):
    job = job_of(SIMPLE | change)
    assert job.command == command
    assert job_from_dict(job_to_dict(job)) == job


def test_job_name_loses_only_zero_width_joiners():
    job = job_of(SIMPLE | {"name": "👩\u200d🔬"})
    assert job.name == "👩🔬"
    assert job_from_dict(job_to_dict(job)) == job


def test_text_command_runs_in_a_shell_and_list_command_runs_directly():
    assert task_commands(spec_of(SIMPLE | {"command": "a | b"}))[0].command == ("/bin/sh", "-c", "a | b")
    assert task_commands(spec_of(SIMPLE))[0].command == ("python3", "train.py")


def test_roles_have_their_own_commands_and_variables():
    tasks = task_commands(spec_of(ROLES | {"env": {"A": "0", "B": "2"}}))
    assert [(task.role, task.role_index) for task in tasks] == [("learner", 0), *(("actor", i) for i in range(16))]
    assert (tasks[0].command, tasks[0].env) == (("python3", "learn.py"), {"A": "1", "B": "2"})
    assert (tasks[1].command, tasks[1].env) == (("/bin/sh", "-c", "python3 run.py"), {"A": "0", "B": "2"})
    assert [task.group for task in tasks] == [0] + [1] * 16


ELASTIC = {
    "command": "x",
    "roles": [
        {"name": "a", "gpus": 1, "count": 2, "min": 1, "max": 4},
        {"name": "m", "cpu": 1},
        {"name": "b", "gpus": 1, "count": 3, "min": 2, "max": 3},
    ],
}


@pytest.mark.parametrize(("size", "a", "b"), [(3, 1, 2), (4, 2, 2), (5, 2, 3), (6, 3, 3), (7, 4, 3)])
def test_elastic_roles_are_filled_to_min_then_count_then_max(size, a, b):
    tasks = task_commands(spec_of(ELASTIC), [size, 1])
    assert [task.role for task in tasks] == ["a"] * a + ["m"] + ["b"] * b
    assert [task.group for task in tasks] == [0] * a + [1] + [0] * b


@given(st.integers(3, 7))
def test_every_placed_task_has_a_role(size):
    job = job_of(ELASTIC)
    placed = placed_roles(job, [size, 1])
    assert sum(count for _, group, count in placed if group == 0) == size
    assert all(role.bounds[0] <= count <= role.bounds[1] for role, _, count in placed)


def test_grace_uses_the_default_or_the_given_duration():
    assert grace_s(spec_of(SIMPLE)) == DEFAULT_GRACE_S
    assert grace_s(spec_of(SIMPLE | {"checkpoint": {"grace": "1500ms"}})) == 1.5
    assert grace_s(spec_of(SIMPLE | {"checkpoint": {"grace": 0}})) == 0


def test_retry_rule_uses_the_defaults_or_the_given_values():
    assert retry_rule(spec_of(SIMPLE)) == RetryRule()
    assert retry_rule(spec_of(SIMPLE | {"retries": 2})) == RetryRule(2, 10.0, ("failed", "lost"))
    assert retry_rule(spec_of(FULL)) == RetryRule(3, 60.0, ("lost",))


@pytest.mark.parametrize("tenant", ["", "a\nb"])
def test_to_job_refuses_an_invalid_tenant(tenant):
    with pytest.raises(Invalid):
        to_job(spec_of(SIMPLE), "job-1", NOW_US, tenant, "ada")
