"""Jobs and clusters as plain data: reading, writing, and refusal with the field."""

import json
import math
import tomllib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.cluster import GIB, Card, Cluster, MaintenanceWindow, Node
from gpusquad.model.codec import cluster_from_dict, cluster_to_dict, job_from_dict, job_to_dict
from gpusquad.model.errors import Invalid
from gpusquad.model.fields import MAX_US
from gpusquad.model.job import Checkpoint, Job, OfflineEstimate, Profile, Request, Role, Share, Slo
from gpusquad.model.priority import PRIORITY_CLASSES

texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=12)
names = texts.filter(bool)
times = st.integers(0, MAX_US)
amounts = st.integers(0, 2**45)
ratios = st.floats(0, 1)


def optional(strategy):
    return st.none() | strategy


extras = st.dictionaries(names, st.integers(1, 2**50), max_size=3).map(
    lambda extras_by_name: tuple(sorted(extras_by_name.items()))
)


@st.composite
def requests(draw) -> Request:
    common = {"cpu_milli": draw(st.integers(0, 10**6)), "memory_bytes": draw(amounts), "extras": draw(extras),
              "where": draw(st.just("") | names), "most_per_node": draw(st.integers(0, 9))}  # fmt: skip
    models = tuple(draw(st.lists(names, max_size=3)))
    kind = draw(st.sampled_from(["cpu", "whole", "share"]))
    if kind == "cpu":
        return Request(**common)
    if kind == "whole":
        gpus = draw(st.integers(1, 16))
        card = draw(optional(names)) if gpus == 1 else None
        together = draw(st.integers(0, gpus - 1))
        return Request(gpus=gpus, gpu_models=models, min_card_memory_bytes=draw(amounts), card=card,
                       gpus_together=together, **common)  # fmt: skip
    memory, sm = draw(st.tuples(amounts, st.integers(0, 1000)).filter(any))
    memory_milli = 0 if memory else draw(st.integers(0, 1000))
    share = Share(memory, sm, draw(st.sampled_from(["shared", "isolated"])), memory_milli)
    return Request(share=share, gpu_models=models, card=draw(optional(names)), **common)


@st.composite
def roles(draw) -> tuple[Role, ...]:
    result = []
    for name in draw(st.lists(names | st.just("task"), min_size=1, max_size=3, unique=True)):
        count = draw(st.integers(1, 100))
        low, high = draw(optional(st.integers(1, count))), draw(optional(st.integers(count, 200)))
        result.append(Role(name, count, draw(requests()), low, high))
    return tuple(result)


@st.composite
def slos(draw, submitted_us: int) -> Slo:
    return Slo(
        deadline_us=draw(optional(times.map(lambda us: submitted_us + us))),
        latency_us=draw(optional(times)),
        throughput_per_s=draw(optional(st.floats(1e-9, 1e9))),
        availability_ratio=draw(optional(ratios)),
    )


@st.composite
def offline_estimates(draw) -> OfflineEstimate:
    low, high = sorted((draw(times), draw(times)))
    sizes = tuple(sorted(draw(st.dictionaries(st.integers(1, 4096), times, max_size=4)).items()))
    run, run_high = draw(st.sampled_from([(low, high), (low, None), (None, high)]))
    return OfflineEstimate(run, run_high, draw(amounts), sizes)


@st.composite
def jobs(draw) -> Job:
    submitted_us = draw(times)
    checkpoint = Checkpoint(draw(optional(st.integers(1, MAX_US))), draw(times), draw(st.booleans()))
    return Job(
        id=draw(names),
        roles=draw(roles()),
        submitted_us=submitted_us,
        tenant=draw(names),
        **{name: draw(texts) for name in ("name", "user", "queue", "lane", "app", "command")},
        priority=draw(st.sampled_from(list(PRIORITY_CLASSES))),
        estimate_us=draw(optional(times)),
        limit_us=draw(optional(times)),
        slo=draw(optional(slos(submitted_us))),
        profile=draw(
            optional(
                st.builds(Profile, ratios, amounts, ratios, st.sampled_from(["declared", "measured", "predicted"]))
            )
        ),
        checkpoint=draw(st.just(Checkpoint()) | st.just(checkpoint)),
        expected=draw(optional(offline_estimates())),
        held_until_us=draw(optional(times)),
        ran_before_us=draw(times),
        avoid_cards=tuple(draw(st.lists(names, max_size=3))),
    )


@given(jobs())
def test_job_survives_a_round_trip_through_json(job: Job):
    assert job_from_dict(json.loads(json.dumps(job_to_dict(job)))) == job


def test_eligible_time_never_moves_back():
    job = replace(job_from_dict({"id": "a", "gpus": 2}), submitted_us=10)
    assert (job.eligible_us, job.eligible_from(9, 0)) == (10, job)
    later = job.eligible_from(30, served_gpu_us=8)
    assert (later.eligible_us, later.submitted_us, later.ran_before_us) == (30, 10, 4)
    assert later.eligible_from(20, 0) == later
    assert replace(job, estimate_us=5).eligible_as(later) == replace(later, estimate_us=5)


def test_job_without_roles_has_one_role():
    job = job_from_dict(
        {"id": "a", "gpus": 8, "count": 4, "min": 2, "max": 8, "cpu": "500m", "memory": "2GiB", "gpu_model": "H100"}
    )
    request = Request(gpus=8, cpu_milli=500, memory_bytes=2 * GIB, gpu_models=("H100",))
    assert job.roles == (Role("task", 4, request, 2, 8),)
    assert job.tenant == "default"


def test_every_field_of_a_job_is_read():
    job = job_from_dict(
        {
            "version": 1, "id": "a", "submitted": "1m", "share": {"memory": "8.3GB", "sm": "25%"},
            "slo": {"deadline": "2h", "latency": "50ms", "throughput": 10, "availability": "99.9%"},
            "profile": {"utilisation": 0.23, "memory": "8GB", "bandwidth": "10%", "source": "measured"},
            "checkpoint": {"every": "10m", "restart": 30, "preemptible": False},
            "expect": {"run": "1h", "run_high": "90m", "memory": "2GB", "by_gpus": {"2": "30m", 1: "1h"}},
            "command": "python3 train.py",
        }
    )  # fmt: skip
    assert job.roles[0].request.share == Share(8_300_000_000, 250)
    assert job.slo == Slo((60 + 7200) * 10**6, 50_000, 10.0, 0.9990000000000001)
    assert job.profile == Profile(0.23, 8 * 10**9, 0.1, "measured")
    assert job.checkpoint == Checkpoint(600 * 10**6, 30 * 10**6, False)
    sizes = ((1, 3600 * 10**6), (2, 1800 * 10**6))
    assert job.expected == OfflineEstimate(3600 * 10**6, 5400 * 10**6, 2 * 10**9, sizes)
    assert job.command == "python3 train.py"


def test_roles_are_read_in_order():
    job = job_from_dict({"id": "a", "roles": [{"name": "m", "cpu": 1}, {"name": "w", "count": 7, "gpus": 1}]})
    assert [(role.name, role.count) for role in job.roles] == [("m", 1), ("w", 7)]
    assert job.tasks == 8


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"count": -1}, "count", "below 1"),
        ({"count": 1.5}, "count", "not a whole number"),
        ({"count": True}, "count", "expected a number"),
        ({"count": 10**9}, "count", "above"),
        ({"count": 10**400}, "count", "larger than"),
        ({"count": 2, "min": 3}, "count", "outside 3 to 2"),
        ({"count": 3, "max": 2}, "count", "outside 3 to 2"),
        ({"gpuss": 1}, "gpuss", "did you mean 'gpus'"),
        ({"frobnicate": 1}, "frobnicate", "known here"),
        ({"gpus": 0.5}, "gpus", "share: {sm: 0.5}"),
        ({"gpus": -1}, "gpus", "below 0"),
        ({"gpus": math.nan}, "gpus", "not a finite"),
        ({"gpus": math.inf}, "gpus", "not a finite"),
        ({"gpus": "4"}, "gpus", "expected a number"),
        ({"gpus": 2, "share": {"sm": 0.5}}, "share", "whole GPUs or for a share"),
        ({"gpus": None, "share": {"sm": 2}}, "share.sm", "more than one GPU"),
        ({"gpus": None, "share": {"sm": 0}}, "share", "requests no resources"),
        ({"gpus": None, "share": {"sm": math.nan}}, "share.sm", "not a finite"),
        ({"gpus": None, "share": {"sm": True}}, "share.sm", "expected a number"),
        ({"gpus": None, "share": {"memory": "8 parsecs"}}, "share.memory", "'parsecs' is not a unit"),
        ({"gpus": None, "share": {"memory": "130%"}}, "share.memory", "more than one GPU"),
        ({"gpus": None, "share": {"memory": 0.3}}, "share.memory", "write 30%"),
        ({"gpus": None, "share": {"memory": "0.7", "sm": 0.5}}, "share.memory", "write 70%"),
        ({"gpus": None, "share": {"memory": "%"}}, "share.memory", "0.25 or 25%"),
        ({"gpus": None, "share": {"cores": 1}}, "share.cores", "not a known field"),
        ({"gpus": None, "share": 0.5}, "share", "expected named fields"),
        ({"gpus": None, "share": {"isolation": "isolated"}}, "share", "requests no resources"),
        ({"gpus": None, "share": {"sm": 1, "isolation": "isolate"}}, "share.isolation", "isolated"),
        ({"gpus": None}, "gpus", "no other resource is requested"),
        ({"gpus": 0, "gpu_model": "H100"}, "gpu_model", "requires a GPU"),
        ({"gpus": 0, "gpu_memory": "1GB"}, "gpu_memory", "whole GPUs"),
        ({"gpus": 2, "card": "n0/1"}, "card", "gpus: 1"),
        ({"gpu_model": []}, "gpu_model", "is empty"),
        ({"gpu_model": ["A", 3]}, "gpu_model[1]", "expected text"),
        ({"cpu": "half"}, "cpu", "500m"),
        ({"cpu": "-1"}, "cpu", "below 0"),
        ({"cpu": "nan"}, "cpu", "not a finite"),
        ({"cpu": 0.0001}, "cpu", "less than a thousandth"),
        ({"memory": "1e400"}, "memory", "finite"),
        ({"estimate": "2 moons"}, "estimate", "'moons' is not a unit"),
        ({"estimate": -1}, "estimate", "below 0"),
        ({"estimate": 4_000_000_000}, "estimate", "more than"),
        ({"submitted": "soon"}, "submitted", "cannot read"),
        ({"submitted": []}, "submitted", "expected a number"),
        ({"priority": "hihg"}, "priority", "did you mean 'high'"),
        ({"id": ""}, "id", "is empty"),
        ({"id": None}, "id", "is missing"),
        ({"id": 7}, "id", "expected text"),
        ({"id": "x" * 257}, "id", "257 characters"),
        ({"id": "a\nb"}, "id", "cannot be printed"),
        ({"tenant": ""}, "tenant", "is empty"),
        ({"slo": {"deadline": "x"}}, "slo.deadline", "cannot read"),
        ({"slo": {"availability": 1.5}}, "slo.availability", "above 1"),
        ({"slo": {"throughput": 0}}, "slo.throughput", "is zero"),
        ({"slo": {"throughput": "5/min"}}, "slo.throughput", "5 or 5/s"),
        ({"profile": {"utilisation": 23}}, "profile.utilisation", "above 1"),
        ({"profile": {"source": "guessed"}}, "profile.source", "not one of declared"),
        ({"checkpoint": {"every": 0}}, "checkpoint.every", "is zero"),
        ({"checkpoint": {"preemptible": "no"}}, "checkpoint.preemptible", "true or false"),
        ({"expect": {}}, "expect", "is empty"),
        ({"expect": {"run": "2h", "run_high": "1h"}}, "expect.run_high", "less than run"),
        ({"expect": {"by_gpus": {"0": 1}}}, "expect.by_gpus.0", "not a number of GPUs"),
        ({"expect": {"by_gpus": {"two": 1}}}, "expect.by_gpus.two", "not a number of GPUs"),
        ({"expect": {"by_gpus": {"5000": 1}}}, "expect.by_gpus.5000", "above 4096"),
        ({"expect": {"by_gpus": {"2": "soon"}}}, "expect.by_gpus.2", "cannot read"),
        ({"expect": {"by_gpus": {"2": 1, 2: 1}}}, "expect.by_gpus.2", "given twice"),
        ({"expect": {"by_gpus": [1]}}, "expect.by_gpus", "expected named fields"),
        ({"expect": {"peak": 1}}, "expect.peak", "not a known field"),
        ({"version": 2}, "version", "version: 1"),
        ({"roles": [{"name": "a", "gpus": 1}]}, "gpus", "cannot be combined with roles"),
        ({"gpus": None, "roles": []}, "roles", "is empty"),
        ({"gpus": None, "roles": {}}, "roles", "expected a list"),
        ({"gpus": None, "roles": [3]}, "roles[0]", "expected named fields"),
        ({"gpus": None, "roles": [{"gpus": 1}]}, "roles[0].name", "is missing"),
        ({"gpus": None, "roles": [{"name": "a", "gpus": 1}] * 2}, "roles[1].name", "used twice"),
        ({"gpus": None, "roles": [{"name": "a", "gpus": 1, "cuont": 2}]}, "roles[0].cuont", "did you mean 'count'"),
        ({"gpus": None, "roles": [{"name": "a", "gpus": 1, "count": 1, "min": 2}]}, "roles[0].count", "outside"),
        ({"gpus": None, "roles": [{"name": str(i), "cpu": 1} for i in range(300)]}, "roles", "more than 256"),
        ({"gpus": None, "roles": [{"name": n, "cpu": 1, "count": 600_000} for n in "ab"]}, "roles", "1200000 tasks"),
    ],
)
def test_invalid_job_is_refused_with_the_field(change: dict, field: str, message: str):
    with pytest.raises(Invalid) as caught:
        job_from_dict({"id": "a", "gpus": 1} | change)
    assert caught.value.field == field
    assert message in str(caught.value)
    assert len(str(caught.value)) < 1000
    with pytest.raises(Invalid) as caught:
        job_from_dict({"id": "a", "gpus": 1} | change, "jobs[3]")
    assert caught.value.field == f"jobs[3].{field}"


@pytest.mark.parametrize("data", [None, 3, "job", [], [1]])
def test_data_that_is_no_job_is_refused(data):
    with pytest.raises(Invalid):
        job_from_dict(data)


plain_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [
    "id", "tenant", "priority", "submitted", "estimate", "limit", "slo", "profile", "checkpoint", "expect", "roles",
    "gpus", "share", "cpu", "memory", "gpu_model", "gpu_memory", "card", "count", "min", "max", "version",
]  # fmt: skip


@given(st.dictionaries(st.sampled_from(FIELDS), plain_data, max_size=5))
def test_arbitrary_data_is_read_or_raises_invalid(change: dict):
    try:
        job = job_from_dict({"id": "a"} | change)
    except Invalid:
        return
    assert job_from_dict(job_to_dict(job)) == job


CLUSTER = """
[[nodes]]
id = "big"
count = 2
cpu = 96
memory = "1TiB"
rack = "r1"
gpus = 8
gpu_model = "H100"
gpu_memory = "80GiB"
sms = 132
domain_size = 4
[[nodes]]
id = "odd"
cards = [{ id = "x", model = "P100", memory = "16GiB", sms = 56, domain = 1 }, {}]
[[nodes]]
id = "cpu"
[[windows]]
id = "w"
nodes = ["big-1", "cpu"]
start = "1h"
"""


def test_cluster_and_windows_are_read():
    cluster, windows = cluster_from_dict(tomllib.loads(CLUSTER))
    assert [(node.id, len(node.cards), node.rack) for node in cluster.nodes] == [
        ("big-0", 8, "r1"), ("big-1", 8, "r1"), ("odd", 2, ""), ("cpu", 0, ""),
    ]  # fmt: skip
    assert cluster.nodes[1].cards[5] == Card("big-1/5", "H100", 80 * GIB, 132, 1)
    assert cluster.nodes[2].cards == (Card("x", "P100", 16 * GIB, 56, 1), Card("odd/1"))
    assert cluster.nodes[0].cpu_milli == 96_000
    assert cluster.nodes[3].cpu_milli == 16_000
    assert windows == (MaintenanceWindow("w", ("big-1", "cpu"), 3600 * 10**6, None),)


def test_cluster_survives_a_round_trip_through_json():
    cluster, windows = cluster_from_dict(tomllib.loads(CLUSTER))
    windows += (MaintenanceWindow("v", ("odd",), 5, 1_000_001),)
    read_again = cluster_from_dict(json.loads(json.dumps(cluster_to_dict(cluster, windows))))
    assert read_again == (cluster, windows)


def test_cluster_created_in_code_survives_a_round_trip():
    cluster = Cluster((Node("n", (Card("c", "m", 1, 1, 3),), 1, 0, "r", (("nic", 2),)), Node("e")))
    assert cluster_from_dict(cluster_to_dict(cluster)) == (cluster, ())


@pytest.mark.parametrize(
    ("data", "field", "message"),
    [
        ({}, "nodes", "is missing"),
        ({"nodes": []}, "nodes", "is empty"),
        ({"node": []}, "node", "did you mean 'nodes'"),
        ({"nodes": [{}]}, "nodes[0].id", "is missing"),
        ({"nodes": [{"id": "a", "gpu": 1}]}, "nodes[0].gpu", "did you mean 'gpus'"),
        ({"nodes": [{"id": "a", "gpus": -1}]}, "nodes[0].gpus", "below 0"),
        ({"nodes": [{"id": "a", "count": 0}]}, "nodes[0].count", "below 1"),
        ({"nodes": [{"id": "a", "count": 10**6, "gpus": 4000}]}, "nodes[0].gpus", "keep it to"),
        ({"nodes": [{"id": "a", "gpus": 1, "cards": [{}]}]}, "nodes[0].gpus", "cannot be combined with cards"),
        ({"nodes": [{"id": "a", "count": 2, "cards": [{}]}]}, "nodes[0].cards", "cannot be combined with count"),
        ({"nodes": [{"id": "a", "cards": [{"sm": 1}]}]}, "nodes[0].cards[0].sm", "did you mean 'sms'"),
        ({"nodes": [{"id": "a", "cards": 3}]}, "nodes[0].cards", "expected a list"),
        ({"nodes": [{"id": "a"}, {"id": "a"}]}, "nodes", "'a' is used twice"),
        ({"nodes": [{"id": "a", "domain_size": 0}]}, "nodes[0].domain_size", "below 1"),
        ({"nodes": [{"id": "a"}], "windows": [{"id": "w"}]}, "windows[0].nodes", "expected a list"),
        (
            {"nodes": [{"id": "a"}], "windows": [{"id": "w", "nodes": ["b"]}]},
            "windows[0].nodes[0]",
            "node 'b' does not exist",
        ),
        (
            {"nodes": [{"id": "a"}], "windows": [{"id": "w", "nodes": ["a"], "start": 5, "end": 5}]},
            "windows[0].end",
            "not after start",
        ),
        ({"nodes": [{"id": "a"}], "windows": [{"id": "w", "nodes": ["a"]}] * 2}, "windows[1].id", "used twice"),
    ],
)
def test_invalid_cluster_is_refused_with_the_field(data: dict, field: str, message: str):
    with pytest.raises(Invalid) as caught:
        cluster_from_dict(data)
    assert caught.value.field == field
    assert message in str(caught.value)
