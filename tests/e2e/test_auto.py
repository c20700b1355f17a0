"""``auto`` requests and estimators with the real service and real processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.running import RunningService
from gpusquad.client.client import Client

GIB, MIB = 2**30, 2**20
PYTHON = sys.executable
OPEN = {"gpus": "auto", "gpu_memory": "auto", "cpu": "auto", "memory": "auto"}
ESTIMATE = """
import json, os, pathlib, sys
assert os.environ["CUDA_VISIBLE_DEVICES"] == "" and os.environ["SIZE"] == "3"
with open("ran", "a") as file: file.write("x")
print("only a warning", file=sys.stderr)
print(json.dumps({"run": "5s", "memory": os.environ["SIZE"] + "GiB", "by_gpus": {"2": "9s", "4": "5s"}, "cpu": 0.5,
                  "host_memory": "200MiB"}))
"""
HOLD = "import sys; held = bytearray(int(sys.argv[1]) << 20); held[::4096] = b'x' * len(held[::4096])"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    running = RunningService(tmp_path_factory.mktemp("home") / "service", "--simulate", "8")
    yield running.start().checked()
    running.end()


def chosen(service: RunningService, job_id: str) -> dict[str, Any]:
    return {one["field"]: one for one in service.client.jobs.get(job_id)["auto"]}


def estimator(folder: Path, **fields: Any) -> dict[str, Any]:
    (folder / "estimate.py").write_text(ESTIMATE)
    return {"workdir": str(folder), "env": {"SIZE": "3"}, "expect": {"by": [PYTHON, "estimate.py"]}} | OPEN | fields


def test_estimator_of_a_gang_runs_once_and_its_answer_is_used(service: RunningService, tmp_path: Path) -> None:
    file = estimator(tmp_path, count=2, command=["true"], name="estimated")
    first = service.submit(**file)
    job = service.wait(first)
    assert job["state"] == "succeeded"
    shown = service.client.jobs.get(first)
    assert shown["estimator"]["state"] == "done"
    assert shown["estimator"]["fields"]["memory"] == "3GiB"
    assert (shown["forecast"]["source"], shown["gpus"]) == ("analytical", 4)
    found = chosen(service, first)
    assert {name: one["value"] for name, one in found.items()} == {
        "gpus": 2, "gpu_memory": "4GiB", "cpu": 0.5, "memory": "256MiB",
    }  # fmt: skip
    assert {one["source"] for one in found.values()} == {"estimate"}
    assert found["memory"]["used"]
    second = service.submit(**file)
    service.wait(second)
    assert service.client.jobs.get(second)["estimator"]["cached"]
    assert (tmp_path / "ran").read_text() == "x"
    assert not list((service.home / "runs").glob("*.estimate"))


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("echo trouble >&2; exit 3", "exit code 3: trouble"),
        ("echo no object", "printed no JSON object"),
        ("""echo '{"run": "soon"}'""", "cannot be used"),
        ("sleep 1000", "did not end within 0.5 s"),
    ],
)
def test_job_is_queued_with_a_warning_if_its_estimator_fails(service: RunningService, by: str, words: str) -> None:
    job_id = service.submit(command=["true"], cpu="auto", expect={"by": by, "timeout": 0.5 if "sleep" in by else 60})
    assert service.wait(job_id)["state"] == "succeeded"
    warnings = [event["cause"] for event in service.client.jobs.story(job_id) if event["kind"] == "warned"]
    assert any(words in text and "queued without its answer" in text for text in warnings), warnings
    assert chosen(service, job_id)["cpu"]["value"] is not None


def test_cancelled_job_stops_its_estimator(service: RunningService, tmp_path: Path) -> None:
    job_id = service.submit(command=["true"], expect={"by": "echo $$ >pid; exec sleep 1000"}, workdir=str(tmp_path))
    assert service.client.jobs.get(job_id)["state"] == "held"
    assert "its estimator" in service.client.jobs.why(job_id)["reasons"][0]["message"]
    service.client.jobs.cancel(job_id)
    assert service.wait(job_id)["state"] == "cancelled"
    # Its place is free again: another estimator runs.
    other = service.submit(command=["true"], expect={"by": """echo '{"run": 1}'"""})
    assert service.wait(other)["state"] == "succeeded"


def test_endless_estimators_of_one_user_do_not_block_another(service: RunningService, tmp_path: Path) -> None:
    endless = [
        service.submit(command=["true"], workdir=str(tmp_path), expect={"by": f"echo x >ran{number}; exec sleep 1000"})
        for number in range(4)
    ]
    http = service.client.http
    http.post("users", body={"name": "ann", "tenant": "default", "role": "member"})
    ann = Client(http.url, http.post("tokens", body={"user": "ann", "label": "test"})["token"])
    file = {"gpus": 1, "command": ["true"], "workdir": str(tmp_path), "expect": {"by": """echo '{"run": 2}'"""}}
    job_id = ann.jobs.submit(file)["jobs"][0]["id"]
    assert service.wait(job_id)["state"] == "succeeded"
    reasons = [service.client.jobs.why(one)["reasons"][0]["message"] for one in endless]
    assert [text.split(";")[0] for text in reasons] == [
        *["its estimator (expect.by) runs"] * 2, *["waits for its turn to run its estimator (expect.by)"] * 2,
    ]  # fmt: skip
    assert not (tmp_path / "ran2").exists()
    for one in reversed(endless):
        service.client.jobs.cancel(one)
        service.wait(one)


def test_history_is_used_by_the_next_job_and_memory_grows_after_a_kill(service: RunningService) -> None:
    def submit(mib: int, **fields: Any) -> str:
        return service.submit(
            command=[PYTHON, "-c", HOLD, str(mib)], name="grower", cpu="auto", memory="auto", **fields
        )

    first = submit(200)
    assert service.wait(first)["state"] == "succeeded"
    assert chosen(service, first)["memory"]["source"] == "fair share"
    used = chosen(service, first)["memory"]["used"]
    assert 200 * MIB <= used < GIB
    second = submit(900, retries={"count": 4, "backoff": 0.1})
    assert service.wait(second)["state"] == "succeeded"
    memory = chosen(service, second)["memory"]
    if "limit does not hold" in str(service.client.jobs.story(second)):
        pytest.skip("memory limits cannot be set on this machine")
    assert memory["source"] == "out of memory"
    assert memory["amount"] > memory["used"] > 900 * MIB
    assert any("the next attempt requests" in event["cause"] for event in service.client.jobs.story(second))


def test_estimator_runs_again_after_a_restart_of_the_service(tmp_path: Path) -> None:
    service = RunningService(tmp_path / "home", "--simulate", "8").start().checked()
    try:
        # The first run waits; the second finds the file and answers.
        by = "test -e again && echo '{\"run\": 7}' && exit; touch again; sleep 1000"
        job_id = service.submit(command=["true"], workdir=str(tmp_path), expect={"by": by})
        stream = iter(service.client.events.pulse(0))
        while not (tmp_path / "again").exists():
            next(stream)
        service.kill()
        service.start().checked()
        assert service.wait(job_id)["state"] == "succeeded"
        assert service.client.jobs.get(job_id)["estimator"]["fields"] == {"run": 7}
    finally:
        service.end()
