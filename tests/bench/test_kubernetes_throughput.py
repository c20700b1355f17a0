"""The parts of the bench that need no control plane."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("uvloop")

from bench.kubernetes.load import Size, bindings, gangs
from bench.kubernetes.metrics import in_buckets, quantile, writes
from bench.kubernetes.watcher import NAME, VERSION, value_in
from bench.kubernetes.wire import Door, is_whole

DOOR = Door("https://127.0.0.1:1", Path("tls.crt"), "token")
ANSWER = b'HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{"a"}'
CHUNKED = b'HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a"}\r\n0\r\n\r\n'
EVENT = b'{"type":"ADDED","object":{"kind":"P","metadata":{"name":"pod-7","uid":"u","resourceVersion":"42"}}}'
HISTOGRAM = """
# TYPE t_seconds histogram
t_seconds_bucket{kind="a",le="1"} 50
t_seconds_bucket{kind="a",le="2"} 100
t_seconds_bucket{kind="a",le="+Inf"} 100
t_seconds_bucket{kind="b",le="1"} 7
"""
REQUESTS = """
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 3
apiserver_request_total{code="409",resource="pods",subresource="binding",verb="POST"} 9
apiserver_request_total{code="200",resource="pods",subresource="",verb="LIST"} 5
apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 1e+03
"""


@pytest.mark.parametrize("answer", [ANSWER, CHUNKED])
def test_an_answer_is_whole_with_its_last_byte_and_not_before(answer: bytes):
    assert is_whole(answer)
    assert not any(is_whole(answer[:end]) for end in range(len(answer)))


def test_an_event_tells_its_name_and_version():
    assert value_in(EVENT, NAME) == "pod-7"
    assert value_in(EVENT, VERSION) == "42"


def test_a_quantile_is_of_the_samples_with_the_labels_asked_for():
    assert quantile(HISTOGRAM, "t_seconds", 0.75, kind="a") == 1.5
    assert quantile(HISTOGRAM, "t_seconds", 0.99, kind="c") is None


def test_what_is_above_the_last_bound_is_told_as_that_bound():
    assert in_buckets({1.0: 1, math.inf: 100}, 0.99) == 1.0


@given(st.lists(st.floats(0.001, 15.9), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_a_quantile_lies_in_the_bucket_of_the_value_of_that_rank(values: list[float], part: float):
    bounds = [1.0, 2.0, 4.0, 8.0, 16.0]
    found = in_buckets({bound: sum(value <= bound for value in values) for bound in bounds}, part)
    exact = sorted(values)[max(0, math.ceil(part * len(values) - 1e-9) - 1)]
    upper = next(bound for bound in bounds if exact <= bound)
    assert found is not None
    assert (0.0 if upper == 1.0 else upper / 2) - 1e-6 <= found <= upper + 1e-6


def test_only_writes_that_succeeded_count():
    assert writes(REQUESTS) == {"POST/pods/binding": 3, "POST/pods": 1000}


def test_bindings_go_round_the_nodes():
    sent = [request for _, request in bindings(DOOR, ["a", "b", "c"], 2)]
    assert [b'"node-1"' in request for request in sent] == [False, True, False]
    assert sent[2].startswith(b"POST /api/v1/namespaces/default/pods/c/binding HTTP/1.1\r\n")


@pytest.mark.parametrize("native", [True, False])
def test_every_pod_of_a_gang_names_it_once(native: bool):
    size = Size(pods=20, gang=8)
    pods = dict(gangs(DOOR, "s", size.gangs, size.gang, native=native))
    assert len(pods) == 16
    assert all(
        (b'"schedulingGroup":{"podGroupName":"gang-1"}' in pods[f"gang-1-{member}"]) is native for member in range(8)
    )
    assert all(
        (b'"scheduling.x-k8s.io/pod-group":"gang-1"' in pods[f"gang-1-{member}"]) is not native for member in range(8)
    )
