"""Tests for kinds of jobs and their past runs."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.job import Request, Role
from gpusquad.predict import similar_runs
from gpusquad.predict.similar_runs import LAST, SimilarRuns, groups_of, kind_of, script_of
from tests.predict.similar_jobs import GIB, job, past_run

names = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=40)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("resnet50-lr0.1-run7", "resnet50-lr0.01-run8"),
        ("bert_3f9a2c1d", "BERT-77aa01bc"),
        ("train 2026-01-05", "train_2026-02-17"),
        ("vgg16_bs64_seed3", "vgg16-bs128-seed11"),
        ("llama-7b-sft-lr1e-4", "llama-7b-sft-lr3e-05"),
        ("mnist.fold2", "mnist.fold10"),
    ],
)
def test_kind_ignores_parameters_and_counters(first, second):
    assert kind_of(first) == kind_of(second) != ""


@pytest.mark.parametrize(
    ("first", "second"), [("resnet50", "resnet101"), ("llama-7b", "llama-13b"), ("train-vgg16", "eval-vgg16")]
)
def test_kind_distinguishes_networks(first, second):
    assert kind_of(first) != kind_of(second)


@pytest.mark.parametrize("name", ["", "7", "run-12", "lr0.1-seed3", "job"])
def test_name_of_counters_alone_has_no_kind(name):
    assert kind_of(name) == ""


@given(names)
def test_kind_of_is_idempotent(name):
    assert kind_of(kind_of(name)) == kind_of(name)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_kind_ignores_numbers_after_counting_words(first, second):
    assert kind_of(f"gpt2-seed{first}-{second}") == kind_of(f"gpt2-seed{second}-{first}")


def test_script_is_found_in_a_command():
    assert script_of("python3 -u src/models/train.py --lr 0.1") == "train.py"
    assert script_of("sleep 10") == ""


def test_groups_are_ordered_from_closest_to_widest():
    groups = groups_of(job("resnet50-run7", app="vision", command="python3 train.py"))
    assert [group.key[0] for group in groups] == ["user", "tenant", "app", "script"]
    assert [group.weight for group in groups] == sorted((group.weight for group in groups), reverse=True)


def test_runs_of_another_tenant_are_not_used():
    known = SimilarRuns()
    known.learn(past_run(job(tenant="a")))
    assert known.circles(job(tenant="a"))
    assert known.circles(job(tenant="b")) == []


def test_runs_of_other_users_are_used_when_the_user_has_none():
    known = SimilarRuns()
    known.learn(past_run(job(user="bob")))
    ((group, runs),) = known.circles(job(user="ada"))
    assert (group.key[0], len(runs)) == ("tenant", 1)


def test_job_is_represented_by_its_last_attempt():
    known = SimilarRuns()
    known.learn(past_run(job(), 5, how="preempted", ended_us=1))
    known.learn(past_run(job(), 50, ended_us=2))
    (_, runs), _ = known.circles(job())
    assert [(run.how, run.run_us) for run in runs] == [("succeeded", 50_000_000)]


def test_runs_of_one_size_do_not_displace_another():
    known = SimilarRuns()
    known.learn(past_run(job(gpus=2), ended_us=1))
    for number in range(3 * LAST):
        known.learn(past_run(job(gpus=8, number=number), ended_us=2 + number))
    (_, runs), _ = known.circles(job())
    assert [run.gpus for run in runs] == [2] + [8] * LAST
    assert runs[-1].job_id == f"resnet50-8-{3 * LAST - 1}"


def test_elastic_job_has_no_size():
    known = SimilarRuns()
    known.learn(past_run(replace(job(), roles=(Role("task", 4, Request(gpus=1), 1, 8),)), peak_gib=3))
    (_, runs), _ = known.circles(job())
    assert [(run.gpus, run.peak_bytes) for run in runs] == [(0, 3 * GIB)]


def test_least_recently_used_kinds_are_dropped(monkeypatch):
    monkeypatch.setattr(similar_runs, "MAX_KINDS", 4)  # each job belongs to two groups
    known = SimilarRuns()
    for name in ("old", "middle", "old", "new"):
        known.learn(past_run(job(name)))
    assert known.circles(job("middle")) == []
    assert known.circles(job("old"))
    assert known.circles(job("new"))


runs = st.builds(
    lambda name, gpus, number, how, peak, run_s: past_run(
        job(name, gpus, number), run_s, how=how, ended_us=number, peak_memory_bytes=peak
    ),
    st.sampled_from(["resnet50", "resnet50-run2", "vgg"]), st.integers(0, 8), st.integers(0, 30),
    st.sampled_from(["succeeded", "failed", "timed_out"]), st.none() | st.integers(0, 2**40), st.floats(0, 1e6),
)  # fmt: skip


@given(st.lists(runs, max_size=40))
def test_similar_runs_round_trip_through_json(history):
    known, restored = SimilarRuns(), SimilarRuns()
    known.fit(history)
    restored.load(json.loads(json.dumps(known.dump())))
    for name in ("resnet50", "vgg"):
        assert restored.circles(job(name)) == known.circles(job(name))


@pytest.mark.parametrize("dumped", [{}, {"format": 99, "groups": []}, {"format": 1, "groups": [["a", [[1]]]]}])
def test_invalid_state_is_refused(dumped):
    with pytest.raises((ValueError, KeyError, TypeError)):
        SimilarRuns().load(dumped)
