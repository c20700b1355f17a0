"""Which jobs are of one kind."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.job import Request, Role
from gpusquad.predict import similar_runs
from gpusquad.predict.similar_runs import LAST, SimilarRuns, groups_of, kind_of, script_of
from tests.predict.similar_jobs import GIB, job, ran

names = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=40)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("resnet50-lr0.1-run7", "resnet50-lr0.01-run8"),
        ("bert_3f9a2c1d", "BERT-77aa01bc"),
        ("train 2026-01-05", "train_2026-02-17"),
        ("vgg16_bs64_seed3", "vgg16-bs128-seed11"),
        ("llama-7b-sft-lr1e-4", "llama-7b-sft-lr3e-05"),
        ("mnist.fold2", "mnist.fold10"),
    ],
)
def test_what_changes_from_run_to_run_does_not_count(one, other):
    assert kind_of(one) == kind_of(other) != ""


@pytest.mark.parametrize(
    ("one", "other"), [("resnet50", "resnet101"), ("llama-7b", "llama-13b"), ("train-vgg16", "eval-vgg16")]
)
def test_another_network_is_another_kind(one, other):
    assert kind_of(one) != kind_of(other)


@pytest.mark.parametrize("name", ["", "7", "run-12", "lr0.1-seed3", "job"])
def test_a_name_of_counters_alone_says_nothing(name):
    assert kind_of(name) == ""


@given(names)
def test_a_kind_is_its_own_kind(name):
    assert kind_of(kind_of(name)) == kind_of(name)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_numbers_behind_counting_words_never_tell_kinds_apart(one, other):
    assert kind_of(f"gpt2-seed{one}-{other}") == kind_of(f"gpt2-seed{other}-{one}")


def test_the_script_is_found_in_a_command():
    assert script_of("python3 -u src/models/train.py --lr 0.1") == "train.py"
    assert script_of("sleep 10") == ""


def test_the_closest_circle_comes_first():
    groups = groups_of(job("resnet50-run7", app="vision", command="python3 train.py"))
    assert [group.key[0] for group in groups] == ["user", "tenant", "app", "script"]
    assert [group.weight for group in groups] == sorted((group.weight for group in groups), reverse=True)


def test_nobody_learns_from_another_tenant():
    known = SimilarRuns()
    known.learn(ran(job(tenant="a")))
    assert known.circles(job(tenant="a"))
    assert known.circles(job(tenant="b")) == []


def test_somebody_elses_runs_of_the_same_name_count_if_there_are_none_of_mine():
    known = SimilarRuns()
    known.learn(ran(job(user="bob")))
    ((group, runs),) = known.circles(job(user="ada"))
    assert (group.key[0], len(runs)) == ("tenant", 1)


def test_the_last_attempt_of_a_job_stands_for_it():
    known = SimilarRuns()
    known.learn(ran(job(), 5, how="preempted", ended_us=1))
    known.learn(ran(job(), 50, ended_us=2))
    (_, runs), _ = known.circles(job())
    assert [(run.how, run.run_us) for run in runs] == [("succeeded", 50_000_000)]


def test_runs_of_one_size_do_not_crowd_out_another():
    known = SimilarRuns()
    known.learn(ran(job(gpus=2), ended_us=1))
    for number in range(3 * LAST):
        known.learn(ran(job(gpus=8, number=number), ended_us=2 + number))
    (_, runs), _ = known.circles(job())
    assert [run.gpus for run in runs] == [2] + [8] * LAST
    assert runs[-1].job_id == f"resnet50-8-{3 * LAST - 1}"


def test_an_elastic_job_tells_nothing_of_sizes():
    known = SimilarRuns()
    known.learn(ran(replace(job(), roles=(Role("task", 4, Request(gpus=1), 1, 8),)), peak_gib=3))
    (_, runs), _ = known.circles(job())
    assert [(run.gpus, run.peak_bytes) for run in runs] == [(0, 3 * GIB)]


def test_kinds_that_were_quiet_for_longest_are_forgotten(monkeypatch):
    monkeypatch.setattr(similar_runs, "MAX_KINDS", 4)  # two groups a job
    known = SimilarRuns()
    for name in ("old", "middle", "old", "new"):
        known.learn(ran(job(name)))
    assert known.circles(job("middle")) == []
    assert known.circles(job("old"))
    assert known.circles(job("new"))


runs = st.builds(
    lambda name, gpus, number, how, peak, run_s: ran(
        job(name, gpus, number), run_s, how=how, ended_us=number, peak_memory_bytes=peak
    ),
    st.sampled_from(["resnet50", "resnet50-run2", "vgg"]), st.integers(0, 8), st.integers(0, 30),
    st.sampled_from(["succeeded", "failed", "timed_out"]), st.none() | st.integers(0, 2**40), st.floats(0, 1e6),
)  # fmt: skip


@given(st.lists(runs, max_size=40))
def test_what_was_learned_survives_being_kept(history):
    known, again = SimilarRuns(), SimilarRuns()
    known.fit(history)
    again.load(json.loads(json.dumps(known.dump())))
    for name in ("resnet50", "vgg"):
        assert again.circles(job(name)) == known.circles(job(name))


@pytest.mark.parametrize("dumped", [{}, {"format": 99, "groups": []}, {"format": 1, "groups": [["a", [[1]]]]}])
def test_what_something_else_kept_is_refused(dumped):
    with pytest.raises((ValueError, KeyError, TypeError)):
        SimilarRuns().load(dumped)
