"""Predictions of a real service: learned aside, kept over a restart, learned anew where the file is gone."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench.running import RunningService

pytestmark = pytest.mark.slow
CONFIG = '[predict]\npredictor = "recent:last=1"\n'


def run_one(service: RunningService, **file) -> dict:
    return service.wait(service.submit(**({"gpus": 1, "name": "x", "estimate": 300, "command": "sleep 0.2"} | file)))


def model_file(service: RunningService) -> Path:
    (path,) = (service.home / "models").iterdir()
    return path


def learned(service: RunningService) -> int:
    """Runs that the file knows."""
    model = json.loads(gzip.decompress(model_file(service).read_bytes()))["model"]
    return sum(count for _, count, _ in model["tenants"])


def test_what_was_learned_outlives_the_service_and_its_file(make_service) -> None:
    service = make_service(config=CONFIG)
    for _ in range(2):
        job = run_one(service)
        assert job["state"] == "succeeded"
    told = service.client.cluster.predictions(points=10)
    assert [(line["key"], line["count"], line["cut"]) for line in told["tenants"]] == [("default", 2, 0)]
    assert all(0.1 < point["truth_s"] < 60 for point in told["points"])
    service.stop()
    assert learned(service) == 2
    service.start().checked()
    run_one(service)
    service.stop()
    assert learned(service) == 3  # not 5: what was known already was not learned again
    model_file(service).write_bytes(b"not a model")
    service.start().checked()
    run_one(service)
    service.stop()
    assert learned(service) == 4
