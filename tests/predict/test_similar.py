"""Which jobs are compared, and what is remembered of their owners."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict._similarity import KINDS, Owners, as_key, family
from tests.predict.past_runs import S, job, strange_jobs

KIND = {kind.name: kind for kind in KINDS}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("resnet-lr0.1-run7", "resnet-lr0.01-run8"),
        ("Train_3f9a2c1d", "train_77aa01bc"),
        ("sft-1e-4", "sft-3e-5"),
    ],
)
def test_numbers_do_not_part_a_family(one: str, other: str):
    assert family(one) == family(other)


def test_words_do():
    assert family("train-7") != family("eval-7")


@given(st.text())
def test_a_family_is_short_and_of_its_own_family(name: str):
    assert len(family(name)) <= 120
    assert family(family(name)) == family(name)


def test_jobs_that_differ_in_their_number_are_in_one_group():
    owners = Owners()
    one, other = (owners.features(job(name=f"train-{n}", app="vision")) for n in (1, 22))
    assert KIND["named"].key(one) == KIND["named"].key(other)


def test_a_job_without_a_name_says_nothing_by_its_name():
    features = Owners().features(job())
    assert KIND["named"].key(features) is None
    assert KIND["program"].key(features) is None


@given(strange_jobs(), strange_jobs())
def test_groups_of_an_owner_are_of_one_tenant(one, other):
    owners = Owners()
    for kind in KINDS:
        if kind.name in ("estimate", "habit", "step"):
            continue  # of everybody
        keys = [kind.key(owners.features(each)) for each in (one, other)]
        if keys[0] is not None and keys[0] == keys[1]:
            assert one.tenant == other.tenant


def test_what_an_owner_did_last():
    owners = Owners()
    first = job(gpus=2, estimate_s=60)
    assert owners.features(first).last == (-1, -1)
    owners.submitted(first)
    owners.ended(first, 7)
    owners.ended(job(gpus=4), 9)
    again = owners.features(job(gpus=2, estimate_s=60))
    assert (again.last, again.last_alike, again.again) == ((9, 7), 7, True)
    other = owners.features(job(gpus=2, estimate_s=61))
    assert (other.last, other.last_alike, other.again) == ((9, 7), -1, False)
    assert owners.features(job("bo")).last == (-1, -1)


def test_hours_are_halves_of_a_day():
    owners = Owners()
    assert [owners.features(job(at_s=hour * 3600)).half_day for hour in (0, 11, 12, 23, 24)] == [0, 0, 1, 1, 0]


def test_owners_are_bounded_and_the_longest_away_go_first():
    owners = Owners(most=2)
    for user in ("a", "b", "a", "c"):
        owners.submitted(job(user))
        owners.ended(job(user), 3)
    assert [len(kept) for kept in (owners.last, owners.alike, owners.asked)] == [2, 2, 2]
    assert owners.features(job("a")).last == (3, 3)
    assert owners.features(job("b")).last == (-1, -1)


@given(st.lists(st.tuples(strange_jobs(), st.integers(0, 95)), max_size=8), strange_jobs())
def test_kept_as_text_it_says_the_same(seen, asked):
    owners, other = Owners(), Owners()
    for one, bin_ in seen:
        owners.submitted(one)
        owners.ended(one, bin_)
    other.load(json.loads(json.dumps(owners.dump())))
    assert other.features(asked) == owners.features(asked)


def test_lists_within_lists_become_keys():
    assert as_key([["t", "u"], [1, [2]], None]) == (("t", "u"), (1, (2,)), None)
    assert as_key(S) == S
