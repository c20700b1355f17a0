"""Metrics: names, values and labels."""

import re
import shutil
import subprocess
from types import SimpleNamespace
from typing import get_args

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from gpusquad.core.hang.hang import RuleName
from gpusquad.core.transitions import JobState
from gpusquad.server.metrics import CountRequests, Meters, MetricsSnapshot, TenantQueue, snapshot_of
from gpusquad.server.metrics.labels import OTHER
from gpusquad.server.metrics.meters import MAX_TENANT_LABELS
from gpusquad.server.services.runtime.observer import Observer
from tests.server.exposition import ANN, MIB, NOW_US, SAMPLE, Source, card, families, used_meters, values

DOCUMENTED = {
    "gpusquad_jobs", "gpusquad_queue_depth", "gpusquad_oldest_pending_seconds", "gpusquad_gpus",
    "gpusquad_usable_gang_gpus", "gpusquad_decisions", "gpusquad_cycle_seconds", "gpusquad_job_wait_seconds",
    "gpusquad_forecast_error_seconds", "gpusquad_head_delay_seconds", "gpusquad_http_requests",
    "gpusquad_http_request_seconds", "gpusquad_mode_changes",
    "gpusquad_notices", "gpusquad_preemptions", "gpusquad_hung_jobs", "gpusquad_build_info",
    "gpusquad_last_cycle_timestamp_seconds", "gpusquad_snapshot_up", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_XID_ERRORS",
}  # fmt: skip


def meters_of(snapshot):
    return Meters(lambda: NOW_US, Source(snapshot))


# -- names and format


def test_all_documented_metrics_are_exported():
    assert set(families(used_meters())) >= DOCUMENTED


def test_names_follow_the_conventions():
    text = used_meters().render()[0].decode()
    for family in text_string_to_metric_families(text):
        assert family.documentation.endswith("."), family.name
        assert family.type != "untyped", family.name
        if not family.name.startswith("gpusquad_"):
            continue
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", family.name)
        assert not re.search(r"_(milliseconds|minutes|ms|us|mb|mib|percent|count|sum|bucket)$", family.name)
        assert family.type == "counter" or not family.name.endswith("_total")
        for sample in family.samples:
            assert family.type != "counter" or sample.name.endswith("_total")
            assert all(re.fullmatch(r"[a-z][a-z_]*", label) for label in sample.labels)


def test_promtool_accepts_our_metrics():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    text = used_meters().render()[0]
    found = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, timeout=60)
    complaints = (found.stdout + found.stderr).decode().splitlines()
    assert [line for line in complaints if not line.startswith("DCGM_")] == []  # DCGM chose those names


def test_openmetrics_format_is_used_on_request():
    text, content_type = used_meters().render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert list(openmetrics_families(text.decode()))
    assert used_meters().render()[1].startswith("text/plain")


def test_meters_of_two_services_are_independent():
    first, other = used_meters(), Meters(lambda: NOW_US)
    assert values(first, "gpusquad_preemptions_total") == {(): 1.0}
    assert values(other, "gpusquad_preemptions_total") == {(): 0.0}


# -- events


def test_meters_count_the_events_of_the_scheduler():
    meters = used_meters()
    assert isinstance(meters, Observer)
    assert {name for name in vars(Observer) if not name.startswith("_")} <= set(vars(Meters))
    assert values(meters, "gpusquad_decisions_total")[("preempt",)] == 1
    assert values(meters, "gpusquad_preemptions_total") == {(): 1}
    assert values(meters, "gpusquad_mode_changes_total") == {("slo",): 1}
    assert values(meters, "gpusquad_hung_jobs_total") == {
        (rule,): float(rule == "silent") for rule in get_args(RuleName)
    }
    assert values(meters, "gpusquad_cycle_seconds_count") == {(): 1}
    assert values(meters, "gpusquad_last_cycle_timestamp_seconds") == {(): 1.7e9}
    assert values(meters, "gpusquad_job_wait_seconds_sum") == {("vision",): 42}
    assert values(meters, "gpusquad_forecast_error_seconds_sum") == {("early",): 30, ("late",): 0}
    assert values(meters, "gpusquad_notices_total") == {("dead",): 1, ("retried",): 0, ("sent",): 0}


def test_known_values_start_at_zero():
    fresh = Meters(lambda: NOW_US)
    assert values(fresh, "gpusquad_notices_total") == {("dead",): 0, ("retried",): 0, ("sent",): 0}
    assert values(fresh, "gpusquad_decisions_total")[("start",)] == 0


def test_number_of_label_values_is_bounded():
    meters = Meters(lambda: NOW_US, Source(MetricsSnapshot(queues={f"late{n}": TenantQueue(1, n) for n in range(200)})))
    for number in range(1000):
        meters.started(f"tenant{number}", 1.0)
        meters.request("GET", f"/r{number}", 200, 0.1)
        meters.request(f"METHOD{number}", "/r", 200, 0.1)
        meters.hung(f"rule{number}")
        meters.decided(f"kind{number}")
    assert len(values(meters, "gpusquad_job_wait_seconds_count")) == MAX_TENANT_LABELS + 1
    assert values(meters, "gpusquad_job_wait_seconds_count")[(OTHER,)] == 1000 - MAX_TENANT_LABELS
    assert len(values(meters, "gpusquad_http_requests_total")) < 300
    assert len(values(meters, "gpusquad_hung_jobs_total")) < 30
    assert values(meters, "gpusquad_decisions_total")[(OTHER,)] == 1000
    assert values(meters, "gpusquad_queue_depth") == {(OTHER,): 200}
    assert values(meters, "gpusquad_oldest_pending_seconds") == {(OTHER,): 199}


# -- state


def test_every_state_has_a_series():
    meters = meters_of(MetricsSnapshot({"pending": 3}, cards=[card(state="shared"), card(1, "free")]))
    assert values(meters, "gpusquad_jobs") == {(state,): 3.0 * (state == "pending") for state in JobState}
    assert values(meters, "gpusquad_gpus") == {
        ("free",): 1, ("busy",): 0, ("shared",): 1, ("taken_outside",): 0, ("cordoned",): 0, ("drained",): 0
    }  # fmt: skip


def test_usable_gpus_shrink_with_gang_size_when_fragmented():
    assert values(meters_of(MetricsSnapshot(usable={1: 7, 2: 3, 4: 1, 8: 0})), "gpusquad_usable_gang_gpus") == {
        ("1",): 7, ("2",): 6, ("4",): 4, ("8",): 0
    }  # fmt: skip


def test_snapshot_counts_jobs_and_queues():
    rows = [
        SimpleNamespace(tenant="a", state="pending", submitted_us=NOW_US - 90_000_000),
        SimpleNamespace(tenant="a", state="pending", submitted_us=NOW_US - 30_000_000),
        SimpleNamespace(tenant="b", state="running", submitted_us=0),
    ]
    snapshot = snapshot_of(rows, NOW_US, tenants=["b"], finished={"failed": 4})
    assert snapshot.jobs == {"pending": 2, "running": 1, "failed": 4}
    assert snapshot.queues == {"a": TenantQueue(2, 90.0), "b": TenantQueue(0, 0.0)}


def test_failing_source_leaves_other_metrics():
    meters = used_meters(RuntimeError("the store is away"))
    assert values(meters, "gpusquad_snapshot_up") == {(): 0}
    assert values(meters, "gpusquad_preemptions_total") == {(): 1}
    assert "gpusquad_gpus" not in families(meters)
    assert values(used_meters(), "gpusquad_snapshot_up") == {(): 1}


# -- cards, with DCGM names


def test_card_metrics_have_the_units_and_labels_of_dcgm():
    meters = meters_of(MetricsSnapshot(cards=[card(jobs=(ANN,), sample=SAMPLE)]))
    expected = {
        "GPU_UTIL": 50, "FB_USED": 250, "FB_FREE": 750, "POWER_USAGE": 321.5, "GPU_TEMP": 60, "SM_CLOCK": 1980,
        "MEM_CLOCK": 3201, "XID_ERRORS": 0,
    }  # fmt: skip
    for name, value in expected.items():
        (sample,) = families(meters)[f"DCGM_FI_DEV_{name}"]
        assert sample.value == value
        assert sample.labels == {
            "gpu": "0", "UUID": "GPU-0", "modelName": "NVIDIA H200", "Hostname": "node1", "job_id": "01J0",
            "user": "ann", "tenant": "vision",
        }  # fmt: skip


def test_unknown_values_of_a_card_are_left_out():
    samples = [{"power_w": None, "memory_used_bytes": 5 * MIB}, None, {}]
    meters = meters_of(MetricsSnapshot(cards=[card(index, sample=sample) for index, sample in enumerate(samples)]))
    assert families(meters)["DCGM_FI_DEV_POWER_USAGE"] == []
    assert len(families(meters)["DCGM_FI_DEV_FB_FREE"]) == 1


def test_card_without_samples_still_has_its_xid_error():
    lost = card(0, "cordoned", cause="Xid 79: fallen off the bus")
    meters = meters_of(MetricsSnapshot(cards=[lost, card(1, "cordoned", cause="by ann")]))
    assert [sample.value for sample in families(meters)["DCGM_FI_DEV_XID_ERRORS"]] == [79]
    assert families(meters)["DCGM_FI_DEV_GPU_UTIL"] == []


def test_shared_card_has_one_series():
    bob = type(ANN)("01J1", "x", "bob", "vision")
    meters = meters_of(MetricsSnapshot(cards=[card(state="shared", jobs=(bob, ANN), sample=SAMPLE)]))
    (sample,) = families(meters)["DCGM_FI_DEV_GPU_UTIL"]
    assert (sample.labels["job_id"], sample.labels["user"], sample.labels["tenant"]) == (
        "01J0,01J1",
        "ann,bob",
        "vision",
    )


def test_hostile_label_values_are_sanitised():
    evil = type(ANN)("01J0", "x", 'a"b\\c\n\ud800', "t\x00" * 500)
    meters = meters_of(
        MetricsSnapshot(queues={'x"\n\ud800': TenantQueue(1, 1)}, cards=[card(jobs=(evil,), sample=SAMPLE)])
    )
    (sample,) = families(meters)["DCGM_FI_DEV_GPU_UTIL"]
    assert sample.labels["user"] == 'a"b\\c'
    assert len(sample.labels["tenant"]) <= 64


# -- requests


@pytest.fixture
def served():
    app, meters = FastAPI(), Meters(lambda: NOW_US)
    app.add_middleware(CountRequests, meters=meters)

    @app.get("/jobs/{job_id}")
    def job(job_id: str) -> str:
        if job_id == "bad":
            raise ZeroDivisionError
        return job_id

    @app.get("/events")
    def events() -> StreamingResponse:
        return StreamingResponse(iter([b"data: 1\n\n"]), media_type="text/event-stream")

    return TestClient(app, raise_server_exceptions=False), meters


def test_requests_are_counted_by_route_not_by_path(served):
    client, meters = served
    for path in ("/jobs/1", "/jobs/2", "/jobs/bad", "/nowhere/1", "/nowhere/2", "/events"):
        client.get(path)
    assert values(meters, "gpusquad_http_requests_total") == {
        ("GET", "/jobs/{job_id}", "200"): 2, ("GET", "/jobs/{job_id}", "500"): 1, ("GET", OTHER, "404"): 2,
        ("GET", "/events", "200"): 1,
    }  # fmt: skip
    times = values(meters, "gpusquad_http_request_seconds_count")
    assert times == {("GET", "/jobs/{job_id}"): 3, ("GET", OTHER): 2}
