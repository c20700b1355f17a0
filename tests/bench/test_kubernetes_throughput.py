"""Tests of the parts of the Kubernetes throughput bench that need no control plane."""

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
from bench.kubernetes.wire import ApiServer, is_whole

SERVER = ApiServer("https://127.0.0.1:1", Path("tls.crt"), "token")
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
def test_answer_is_complete_only_with_its_last_byte(answer: bytes):
    assert is_whole(answer)
    assert not any(is_whole(answer[:end]) for end in range(len(answer)))


def test_name_and_version_are_read_from_an_event():
    assert value_in(EVENT, NAME) == "pod-7"
    assert value_in(EVENT, VERSION) == "42"


def test_quantile_uses_only_samples_with_the_labels():
    assert quantile(HISTOGRAM, "t_seconds", 0.75, kind="a") == 1.5
    assert quantile(HISTOGRAM, "t_seconds", 0.99, kind="c") is None


def test_quantile_above_the_last_bound_is_that_bound():
    assert in_buckets({1.0: 1, math.inf: 100}, 0.99) == 1.0


@given(st.lists(st.floats(0.001, 15.9), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_quantile_lies_in_the_bucket_of_its_rank(values: list[float], fraction: float):
    bounds = [1.0, 2.0, 4.0, 8.0, 16.0]
    found = in_buckets({bound: sum(value <= bound for value in values) for bound in bounds}, fraction)
    exact = sorted(values)[max(0, math.ceil(fraction * len(values) - 1e-9) - 1)]
    upper = next(bound for bound in bounds if exact <= bound)
    assert found is not None
    assert (0.0 if upper == 1.0 else upper / 2) - 1e-6 <= found <= upper + 1e-6


def test_only_successful_writes_are_counted():
    assert writes(REQUESTS) == {"POST/pods/binding": 3, "POST/pods": 1000}


def test_bindings_are_spread_over_the_nodes():
    sent = [request for _, request in bindings(SERVER, ["a", "b", "c"], 2)]
    assert [b'"node-1"' in request for request in sent] == [False, True, False]
    assert sent[2].startswith(b"POST /api/v1/namespaces/default/pods/c/binding HTTP/1.1\r\n")


@pytest.mark.parametrize("native", [True, False])
def test_every_pod_of_a_gang_names_its_group(native: bool):
    size = Size(pods=20, gang=8)
    pods = dict(gangs(SERVER, "s", size.gangs, size.gang, native=native))
    assert len(pods) == 16
    assert all(
        (b'"schedulingGroup":{"podGroupName":"gang-1"}' in pods[f"gang-1-{member}"]) is native for member in range(8)
    )
    assert all(
        (b'"scheduling.x-k8s.io/pod-group":"gang-1"' in pods[f"gang-1-{member}"]) is not native for member in range(8)
    )
