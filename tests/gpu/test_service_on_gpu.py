"""The service on a machine with a real GPU: real cards, a real PyTorch job, an unmanaged process."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.running import RunningService

pytestmark = pytest.mark.skipif(
    shutil.which("nvidia-smi") is None or importlib.util.find_spec("torch") is None,
    reason="needs an NVIDIA GPU and PyTorch",
)
UNMANAGED_PROGRAM = "import torch, time; x = torch.zeros(2**28, device='cuda'); torch.cuda.synchronize(); print('here', flush=True); time.sleep(600)"  # noqa: E501
PATIENCE_S = 60.0


@pytest.fixture
def service(tmp_path: Path):
    running = RunningService(tmp_path / "home")
    yield running.start().checked()
    running.end()


def card_of(service: RunningService) -> dict:
    return service.client.cluster.nodes()[0]["cards"][0]


def until(service: RunningService, holds, what: str) -> dict:
    """Poll the card: samples come once a second and cause no event."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds(card := card_of(service)):
        assert time.monotonic() < deadline, f"{what}: {card}"
        time.sleep(0.2)
    return card


def test_pytorch_job_is_attributed_to_its_card_and_succeeds(service, repository: Path) -> None:
    summary = service.client.cluster.summary()
    assert not summary["simulated"]
    script = repository / "examples" / "torch_train.py"
    job_id = service.submit(
        name="torch", gpus=1, command=[sys.executable, str(script), "600"],
        env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
    )  # fmt: skip
    service.wait(job_id, "running")
    busy = until(service, lambda c: ((c["sample"] or {}).get("utilisation_ratio") or 0) > 0.5, "never busy")
    mine = until(service, lambda c: any(p["job"] == job_id for p in c["sample"]["processes"]), "never joined")
    process = next(p for p in mine["sample"]["processes"] if p["job"] == job_id)
    table = subprocess.run(
        ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    print("nvidia-smi:", table.strip(), "ours:", process, "card:", busy["sample"])
    smi = {int(line.split(",")[0]): int(line.split(",")[1]) for line in table.strip().splitlines()}
    assert abs(smi[process["pid"]] - process["memory_bytes"] / 2**20) <= max(1.0, 0.02 * smi[process["pid"]])
    assert mine["state"] == "busy"
    assert [user["id"] for user in mine["jobs"]] == [job_id]
    job = service.wait(job_id)
    assert job["state"] == "succeeded", service.text(job_id)
    assert "done" in service.text(job_id)
    assert "step 600/600" in service.text(job_id)
    print(service.text(job_id))
    until(service, lambda c: c["state"] == "free", "never free again")


def test_unmanaged_process_blocks_its_card_until_it_ends(service) -> None:
    unmanaged = subprocess.Popen([sys.executable, "-c", UNMANAGED_PROGRAM], stdout=subprocess.PIPE)
    try:
        assert unmanaged.stdout is not None
        unmanaged.stdout.readline()
        card = until(service, lambda c: c["state"] == "taken_outside", "the process was not seen")
        assert str(unmanaged.pid) in card["cause"]
        job_id = service.submit(name="waits", gpus=1, command="echo mine")
        assert service.client.jobs.get(job_id)["state"] == "pending"
    finally:
        unmanaged.kill()
        unmanaged.wait()
    assert service.wait(job_id)["state"] == "succeeded"
