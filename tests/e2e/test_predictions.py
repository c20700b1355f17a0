"""Test of a service's predictor: saved on stop, loaded on start, trained again from the store if the file is broken."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench.running import RunningService

pytestmark = pytest.mark.slow
CONFIG = '[predict]\npredictor = "recent:last=1"\n'


def run_job(service: RunningService, **file) -> dict:
    return service.wait(service.submit(**({"gpus": 1, "name": "x", "estimate": 300, "command": "sleep 0.2"} | file)))


def model_file(service: RunningService) -> Path:
    (path,) = (service.home / "models").iterdir()
    return path


def learned_runs(service: RunningService) -> int:
    """Return the number of runs in the predictor file."""
    model = json.loads(gzip.decompress(model_file(service).read_bytes()))["model"]
    return sum(count for _, count, _ in model["tenants"])


def test_learned_runs_survive_a_restart_and_a_broken_file(make_service) -> None:
    service = make_service(config=CONFIG)
    for _ in range(2):
        job = run_job(service)
        assert job["state"] == "succeeded"
    accuracy = service.client.cluster.predictions(points=10)
    assert [(tenant["key"], tenant["count"], tenant["cut"]) for tenant in accuracy["tenants"]] == [("default", 2, 0)]
    assert all(0.1 < point["truth_s"] < 60 for point in accuracy["points"])
    service.stop()
    assert learned_runs(service) == 2
    service.start().checked()
    run_job(service)
    service.stop()
    assert learned_runs(service) == 3  # not 5: runs in the file are not learned again
    model_file(service).write_bytes(b"not a model")
    service.start().checked()
    run_job(service)
    service.stop()
    assert learned_runs(service) == 4
