"""Tests for similarity keys of jobs and the history of their owners."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict._similarity import KINDS, Owners, as_key, family
from tests.predict.past_runs import S, arbitrary_jobs, job

KIND = {kind.name: kind for kind in KINDS}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("resnet-lr0.1-run7", "resnet-lr0.01-run8"),
        ("Train_3f9a2c1d", "train_77aa01bc"),
        ("sft-1e-4", "sft-3e-5"),
    ],
)
def test_family_ignores_numbers(first: str, second: str):
    assert family(first) == family(second)


def test_family_distinguishes_words():
    assert family("train-7") != family("eval-7")


@given(st.text())
def test_family_is_short_and_idempotent(name: str):
    assert len(family(name)) <= 120
    assert family(family(name)) == family(name)


def test_jobs_whose_names_differ_in_numbers_share_a_group():
    owners = Owners()
    first, second = (owners.features(job(name=f"train-{n}", app="vision")) for n in (1, 22))
    assert KIND["named"].key(first) == KIND["named"].key(second)


def test_job_without_a_name_has_no_name_groups():
    features = Owners().features(job())
    assert KIND["named"].key(features) is None
    assert KIND["program"].key(features) is None


@given(arbitrary_jobs(), arbitrary_jobs())
def test_owner_groups_do_not_mix_tenants(first, second):
    owners = Owners()
    for kind in KINDS:
        if kind.name in ("estimate", "habit", "step"):
            continue  # these groups include all tenants
        keys = [kind.key(owners.features(each)) for each in (first, second)]
        if keys[0] is not None and keys[0] == keys[1]:
            assert first.tenant == second.tenant


def test_features_contain_the_owners_last_runs():
    owners = Owners()
    first = job(gpus=2, estimate_s=60)
    assert owners.features(first).last == (-1, -1)
    owners.submitted(first)
    owners.ended(first, 7)
    owners.ended(job(gpus=4), 9)
    repeated = owners.features(job(gpus=2, estimate_s=60))
    assert (repeated.last, repeated.last_alike, repeated.again) == ((9, 7), 7, True)
    other = owners.features(job(gpus=2, estimate_s=61))
    assert (other.last, other.last_alike, other.again) == ((9, 7), -1, False)
    assert owners.features(job("bo")).last == (-1, -1)


def test_half_day_follows_the_submission_hour():
    owners = Owners()
    assert [owners.features(job(at_s=hour * 3600)).half_day for hour in (0, 11, 12, 23, 24)] == [0, 0, 1, 1, 0]


def test_number_of_owners_is_bounded_and_the_least_recent_is_dropped():
    owners = Owners(most=2)
    for user in ("a", "b", "a", "c"):
        owners.submitted(job(user))
        owners.ended(job(user), 3)
    assert [len(table) for table in (owners.last, owners.alike, owners.asked)] == [2, 2, 2]
    assert owners.features(job("a")).last == (3, 3)
    assert owners.features(job("b")).last == (-1, -1)


@given(st.lists(st.tuples(arbitrary_jobs(), st.integers(0, 95)), max_size=8), arbitrary_jobs())
def test_owners_round_trip_through_json(history, new_job):
    owners, restored = Owners(), Owners()
    for past_job, bin_ in history:
        owners.submitted(past_job)
        owners.ended(past_job, bin_)
    restored.load(json.loads(json.dumps(owners.dump())))
    assert restored.features(new_job) == owners.features(new_job)


def test_nested_lists_become_keys():
    assert as_key([["t", "u"], [1, [2]], None]) == (("t", "u"), (1, (2,)), None)
    assert as_key(S) == S
