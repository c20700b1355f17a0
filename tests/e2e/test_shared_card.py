"""Tests of shared cards with the real service, card daemon and shim, on the stand-in driver."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.running import PATIENCE_S, RunningService
from gpusquad.client.errors import ApiError
from gpusquad.gpu.daemon.wire import SOCKET, ask
from tests.gpu.attach.fake_mps import fake_mps
from tests.gpu.standin.build import build as build_standin

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")]
GIB = 2**30
CARD_BYTES = 16 * GIB
PROGRAM = """
import json, os, sys, time
from tests.gpu.standin.client import Cuda, CudaError

cuda, answers = Cuda(), []
for size in map(int, sys.argv[2].split(",")):
    try:
        cuda.alloc(size)
        answers.append(0)
    except CudaError as error:
        answers.append(error.code)
print(json.dumps({"answers": answers, "total": cuda.memory()[1]}), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""
SERVICE_PROGRAM = """
import os, sys, time
import gpusquad
from tests.gpu.standin.client import Cuda

cuda = Cuda()
print("{}", flush=True)
while not os.path.exists(sys.argv[1]):
    for seconds in (0.010, 0.010, 0.010, 0.040):
        gpusquad.served(seconds)
    time.sleep(0.02)
"""

PEAK_PROGRAM = """
import os, sys, time
from tests.gpu.standin.client import Cuda

cuda = Cuda()
cuda.free(cuda.alloc(3 << 30))
print("{}", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""
"""Allocates its peak of 3 GiB and frees it at once."""

LOOP_PROGRAM = """
import os, sys, time
from tests.gpu.standin.client import Cuda

cuda = Cuda()
cell = cuda.number()
print("{}", flush=True)
while not os.path.exists(sys.argv[1]):
    for blocks in (1, 2, 3, 4):
        cuda.launch("add", cell, blocks=blocks)
    cuda.sync()
    time.sleep(0.01)
"""

CONTEXT_BYTES = 64 << 20
"""Memory of a CUDA context on the stand-in driver."""


class SharedCardService:
    """Service on a machine with one stand-in card."""

    def __init__(
        self, folder: Path, run: Path, built: Path, virtual: int, unmanaged: str = "report", mps: str = "off"
    ) -> None:
        self.folder, self.run, self.go = folder, run, folder / "go"
        self._cache = {"XDG_CACHE_HOME": str(built / "cache")}
        (folder / "program.py").write_text(PROGRAM)
        self.driver = {
            "LD_LIBRARY_PATH": str(build_standin(built / "driver")),
            "STANDIN_CARD": str(folder / "card"),
            "STANDIN_MEMORY": str(CARD_BYTES),
            "STANDIN_MODE": "timeslice" if mps == "off" else "mps",
        }
        config = (
            f'[sharing]\nfolder = "{run}"\nlibrary_folder = "{folder / "lib"}"\nidle_s = 1.0\nmps = "{mps}"\n'
            f'unmanaged = "{unmanaged}"\n'
            f"[cluster]\nsample_every_s = 0.2\nvirtual = {virtual}\n"
        )
        self.service = RunningService(folder / "home", config=config)

    def start(self) -> RunningService:
        return self.service.start(environment=self.driver | self._cache).checked()

    def submit(self, name: str, share: dict[str, Any] | None, *sizes: int, **fields: Any) -> str:
        """Submit a job that allocates ``sizes``, prints the results and waits for the file ``go``."""
        env = {name: value for name, value in self.driver.items() if name.startswith("STANDIN_")}
        command = [*fields.pop("under", ()), *self.program(self.go, *sizes)]
        resources = {"gpus": 1} if share is None else {"share": share}
        file = {"name": name, **resources, "command": command, "env": env | {"PYTHONPATH": str(ROOT)}}
        return self.service.client.jobs.submit(file | {"workdir": str(self.folder)} | fields)["jobs"][0]["id"]

    def program(self, go: Path, *sizes: int) -> list[str]:
        return [sys.executable, str(self.folder / "program.py"), str(go), ",".join(map(str, sizes))]

    def printed(self, job_id: str) -> dict[str, Any]:
        until(lambda: "\n" in self.service.text(job_id), lambda: f"{self.service.text(job_id)}\n{self.service.log()}")
        return json.loads(self.service.text(job_id).splitlines()[-1])

    @property
    def sockets(self) -> list[Path]:
        return list(self.run.glob(f"*/cards/*/{SOCKET}"))

    def clients(self) -> dict[str, dict[str, Any]]:
        [socket] = self.sockets
        return {gpu_client["id"]: gpu_client for gpu_client in ask(socket, {"do": "status"})["tenants"]}


ROOT = Path(__file__).parents[2]


def until(condition: Callable[[], Any], describe: Callable[[], str]) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, describe()
        time.sleep(0.05)


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """Temporary folder that every user can enter, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="gsq-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def built() -> Iterator[Path]:
    """Folder with the stand-in driver, and with the shim once a service has built it."""
    with open_folder() as folder:
        yield folder


@pytest.fixture
def shared_card(built: Path, request: pytest.FixtureRequest) -> Iterator[SharedCardService]:
    run = Path(tempfile.mkdtemp(prefix="gsq-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    run.chmod(0o755)
    with open_folder() as folder:
        param = getattr(request, "param", 1)
        shared = SharedCardService(folder, run, built, *(param if isinstance(param, tuple) else (param,)))
        yield shared
        shared.go.touch()
        shared.service.end()
        for socket in shared.sockets:
            stop_daemon(socket)
        shutil.rmtree(run, ignore_errors=True)


def stop_daemon(socket: Path) -> None:
    try:
        ask(socket, {"do": "stop"})
    except OSError:
        return


def test_two_jobs_keep_to_their_quotas_and_the_daemon_ends_after_them(shared_card: SharedCardService) -> None:
    service = shared_card.start()
    assert not service.client.cluster.summary()["simulated"]
    small = shared_card.submit("small", {"memory": "2GiB", "sm": 0.25}, GIB, 3 * GIB // 2)
    large = shared_card.submit(
        "large", {"memory": "6GiB", "sm": 0.5, "isolation": "isolated"}, 5 * GIB, priority="high"
    )
    # Above the quota, an allocation fails although the card has room. The job sees its quota as the size of the card.
    assert shared_card.printed(small) == {"answers": [0, 2], "total": 2 * GIB}
    assert shared_card.printed(large) == {"answers": [0], "total": 6 * GIB}
    jobs = {job["name"]: job["share"] for job in card_of(service)["jobs"]}
    assert jobs == {
        "small": {"sm": 0.25, "memory_bytes": 2 * GIB, "isolation": "shared"},
        "large": {"sm": 0.5, "memory_bytes": 6 * GIB, "isolation": "isolated"},
    }
    used = {name: gpu_client["used_bytes"] for name, gpu_client in shared_card.clients().items()}
    assert used == {f"{small}.0/0": GIB + CONTEXT_BYTES, f"{large}.0/0": 5 * GIB + CONTEXT_BYTES}
    now = service.client.cards.get(card_of(service)["id"])["now"]
    assert now is not None
    assert now["context_bytes"] == CONTEXT_BYTES, "not the size measured on the card"
    notes = {name: running_note(service, job_id) for name, job_id in (("small", small), ("large", large))}
    assert "MPS is turned off" in notes["small"]
    assert "MPS" not in notes["large"]
    shared_card.go.touch()
    assert {service.wait(job_id)["state"] for job_id in (small, large)} == {"succeeded"}
    until(lambda: not shared_card.sockets, lambda: f"the daemon is still running: {shared_card.clients()}")
    until(
        lambda: not processes_with(str(shared_card.run)),
        lambda: f"still running: {processes_with(str(shared_card.run))}",
    )


def test_reduced_quota_of_a_running_job_lets_another_job_start(shared_card: SharedCardService) -> None:
    service = shared_card.start()
    first = shared_card.submit("first", {"memory": "14GiB"}, GIB)
    shared_card.printed(first)
    second = shared_card.submit("second", {"memory": "4GiB"}, 3 * GIB)
    with pytest.raises(ApiError, match=r"1\.1 GB that the client holds"):
        service.client.jobs.update(first, {"memory": "512MiB"})
    assert service.client.jobs.get(second)["state"] == "pending"
    until(lambda: shared_card.clients()[f"{first}.0/0"]["quota_bytes"] == 14 * GIB, lambda: str(shared_card.clients()))
    service.client.jobs.update(first, {"memory": "2GiB"})
    assert shared_card.printed(second) == {"answers": [0], "total": 4 * GIB}
    assert {name: gpu_client["quota_bytes"] for name, gpu_client in shared_card.clients().items()} == {
        f"{first}.0/0": 2 * GIB, f"{second}.0/0": 4 * GIB,
    }  # fmt: skip
    service.client.jobs.update(first, {"memory": "8GiB"})
    until(lambda: shared_card.clients()[f"{first}.0/0"]["quota_bytes"] == 8 * GIB, lambda: str(shared_card.clients()))
    service.client.jobs.update(first, {"memory": "25%"})
    assert shared_card.clients()[f"{first}.0/0"]["quota_bytes"] == 4 * GIB
    service.client.jobs.update(first, {"memory": "62.5%"})
    until(lambda: shared_card.clients()[f"{first}.0/0"]["quota_bytes"] == 10 * GIB, lambda: str(shared_card.clients()))
    shared_card.go.touch()
    assert {service.wait(job_id)["state"] for job_id in (first, second)} == {"succeeded"}


def test_peak_memory_is_known_after_a_service_restart(shared_card: SharedCardService) -> None:
    service = shared_card.start()
    (shared_card.folder / "climber.py").write_text(PEAK_PROGRAM)
    command = [sys.executable, str(shared_card.folder / "climber.py"), str(shared_card.go)]
    job = shared_card.submit("climber", {"memory": "8GiB"}, command=command)
    shared_card.printed(job)
    service.kill()
    shared_card.start()
    assert service.client.jobs.get(job)["state"] == "running"
    memory = service.client.jobs.update(job, {"memory": "peak"})["memory"]
    assert memory == shared_card.clients()[f"{job}.0/0"]["quota_bytes"]
    assert 1.1 * (3 * GIB + CONTEXT_BYTES) <= memory < 3.5 * GIB
    shared_card.go.touch()
    assert service.wait(job)["state"] == "succeeded"


def test_iterations_are_detected_without_output_of_the_program(shared_card: SharedCardService) -> None:
    shared_card.start()
    (shared_card.folder / "looper.py").write_text(LOOP_PROGRAM)
    command = [sys.executable, str(shared_card.folder / "looper.py"), str(shared_card.go)]
    job = shared_card.submit("looper", {"memory": "1GiB"}, command=command)

    def per_s() -> float:
        now = shared_card.service.client.cards.get("0")["now"]
        return sum(gpu_client.get("iterations_per_s") or 0.0 for gpu_client in now["tenants"]) if now else 0.0

    shared_card.printed(job)
    until(lambda: 10 < per_s() < 100, lambda: str(shared_card.clients()))
    shared_card.go.touch()
    shared_card.service.wait(job)


def test_attainment_follows_from_reported_request_times(shared_card: SharedCardService) -> None:
    shared_card.start()
    (shared_card.folder / "service.py").write_text(SERVICE_PROGRAM)
    command = [sys.executable, str(shared_card.folder / "service.py"), str(shared_card.go)]
    env = {name: value for name, value in shared_card.driver.items() if name.startswith("STANDIN_")}
    env["PYTHONPATH"] = f"{ROOT / 'src'}:{ROOT}"
    job = shared_card.submit("service", {"memory": "4GiB"}, command=command, env=env, slo={"p99": "20ms"})
    shared_card.printed(job)
    until(
        lambda: 0.7 < next(iter(shared_card.clients().values()))["attainment"] < 0.8, lambda: str(shared_card.clients())
    )
    [shown] = shared_card.service.client.cards.get("0")["now"]["tenants"]
    assert 0.7 < shown["attainment_ratio"] < 0.8
    shared_card.go.touch()
    shared_card.service.wait(job)


@pytest.mark.parametrize("shared_card", [(2, "report", "auto")], indirect=True)
def test_virtual_cards_are_separate_smaller_cards(
    shared_card: SharedCardService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_mps(tmp_path, monkeypatch)
    service = shared_card.start()
    cards = [card for node in service.client.cluster.nodes() for card in node["cards"]]
    assert [card["id"].rpartition(".")[2] for card in cards] == ["1of2", "2of2"]
    jobs = [shared_card.submit(name, None, CARD_BYTES // 4, CARD_BYTES // 2) for name in ("left", "right")]
    for job_id in jobs:
        assert shared_card.printed(job_id) == {"answers": [0, 2], "total": CARD_BYTES // 2}
    pending = shared_card.submit("waits", None, GIB)
    partitions = {gpu_client["within"] for gpu_client in shared_card.clients().values()}
    assert partitions == {0b01, 0b10}
    shown = service.client.cards.get("1")["now"]
    assert shown is not None
    assert [(gpu_client["groups"], gpu_client["sm_ratio"]) for gpu_client in shown["tenants"]] == [(1, 0.5), (1, 0.5)]
    assert service.client.jobs.get(pending)["state"] == "pending"
    shared_card.go.touch()
    assert {service.wait(job_id)["state"] for job_id in (*jobs, pending)} == {"succeeded"}


@pytest.mark.parametrize("shared_card", [2], indirect=True)
def test_virtual_cards_are_time_sliced_without_mps(shared_card: SharedCardService) -> None:
    service = shared_card.start()
    jobs = [shared_card.submit(name, None, CARD_BYTES // 4, CARD_BYTES // 2) for name in ("left", "right")]
    for job_id in jobs:
        assert shared_card.printed(job_id) == {"answers": [0, 2], "total": CARD_BYTES // 2}
    assert {(gpu_client["within"], gpu_client["sm_milli"]) for gpu_client in shared_card.clients().values()} == {
        (0, 500)
    }
    assert "time-sliced with the other virtual cards" in running_note(service, jobs[0])
    shared_card.go.touch()
    assert {service.wait(job_id)["state"] for job_id in jobs} == {"succeeded"}


def test_restarted_service_adopts_the_clients_of_a_card(shared_card: SharedCardService) -> None:
    service = shared_card.start()
    job_id = shared_card.submit("stays", {"memory": "2GiB"}, GIB)
    ends = shared_card.submit("ends", {"memory": "1GiB"}, GIB // 2)
    shared_card.printed(job_id)
    shared_card.printed(ends)
    service.kill()
    assert set(shared_card.clients()) == {f"{job_id}.0/0", f"{ends}.0/0"}
    shared_card.start()
    service.client.jobs.cancel(ends)
    service.wait(ends, "cancelled")
    until(lambda: set(shared_card.clients()) == {f"{job_id}.0/0"}, lambda: str(shared_card.clients()))
    service.client.jobs.update(job_id, {"priority": "urgent"})
    until(lambda: shared_card.clients()[f"{job_id}.0/0"]["priority"] == 2, lambda: str(shared_card.clients()))
    shared_card.go.touch()
    assert service.wait(job_id)["state"] == "succeeded"
    until(lambda: not shared_card.sockets, lambda: f"the daemon is still running: {shared_card.clients()}")


def test_unmanaged_process_is_logged_once(shared_card: SharedCardService) -> None:
    service = shared_card.start()
    job_id = shared_card.submit("job", {"memory": "2GiB"}, GIB)
    shared_card.printed(job_id)
    env = os.environ | shared_card.driver | {"PYTHONPATH": str(ROOT)}
    stop_file = shared_card.folder / "leave"
    with subprocess.Popen(shared_card.program(stop_file, GIB), env=env, stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: logged_unmanaged(service), service.log)
            assert str(process.pid) in logged_unmanaged(service)[0]
            shared_card.printed(
                shared_card.submit("joins", {"memory": "2GiB"}, GIB)
            )  # unmanaged processes are only reported
            assert card_of(service)["state"] == "shared"
        finally:
            stop_file.touch()
    shared_card.go.touch()
    assert service.wait(job_id)["state"] == "succeeded"
    assert len(logged_unmanaged(service)) == 1, logged_unmanaged(service)


def test_process_of_a_job_without_the_shim_is_logged_as_unmanaged(shared_card: SharedCardService) -> None:
    service = shared_card.start()
    job_id = shared_card.submit("job", {"memory": "2GiB"}, 4 * GIB, under=["env", "-u", "LD_PRELOAD"])
    assert shared_card.printed(job_id)["answers"] == [0], "the quota applied without the shim"
    until(lambda: logged_unmanaged(service), service.log)
    assert job_id in logged_unmanaged(service)[0]
    [socket] = shared_card.sockets
    [process] = ask(socket, {"do": "status"})["strangers"]
    assert process["memory_bytes"] >= 4 * GIB
    shared_card.go.touch()
    assert service.wait(job_id)["state"] == "succeeded"


@pytest.mark.parametrize("shared_card", [(1, "refuse")], indirect=True)
def test_no_job_starts_beside_an_unmanaged_process_when_refused(shared_card: SharedCardService) -> None:
    service = shared_card.start()
    first = shared_card.submit("first", {"memory": "2GiB"}, GIB)
    shared_card.printed(first)
    env = os.environ | shared_card.driver | {"PYTHONPATH": str(ROOT)}
    stop_file = shared_card.folder / "leave"
    with subprocess.Popen(shared_card.program(stop_file, GIB), env=env, stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: card_of(service)["state"] == "taken_outside", service.log)
            pending = shared_card.submit("waits", {"memory": "2GiB"}, GIB)
            until(lambda: why(service, pending), service.log)
            assert f"(pid {process.pid})" in why(service, pending)
            assert service.client.jobs.get(pending)["state"] == "pending"
        finally:
            stop_file.touch()
    shared_card.printed(pending)
    shared_card.go.touch()
    assert {service.wait(job_id)["state"] for job_id in (first, pending)} == {"succeeded"}


def why(service: RunningService, job_id: str) -> str:
    return "; ".join(reason["message"] for reason in service.client.jobs.why(job_id)["reasons"])


def logged_unmanaged(service: RunningService) -> list[str]:
    lines = (service.home / "server.log").read_text("utf-8", "replace").splitlines()
    return [line for line in lines if "unmanaged process on a shared card" in line]


def card_of(service: RunningService) -> dict[str, Any]:
    return dict(service.client.cluster.nodes()[0]["cards"][0])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start tasks as another user")
def test_task_of_another_user_loads_the_shim_and_writes_only_its_own_page(shared_card: SharedCardService) -> None:
    service = shared_card.start()
    shared_card.printed(shared_card.submit("neighbour", {"memory": "2GiB"}, GIB))
    service.client.people.set_tenant("default", {"run_as": "65534:65534"})
    command = """
grep -q libgpusquad /proc/self/maps && echo loaded
test -w "$GPUSQUAD_TENANT" && echo own
for file in "$(dirname "$GPUSQUAD_TENANT")"/*; do test -w "$file" && echo writes || echo reads; done | sort
id -u
"""
    job_file = {"share": {"memory": "1GiB"}, "command": command, "workdir": "/"}
    job_id = service.client.jobs.submit(job_file)["jobs"][0]["id"]
    assert service.wait(job_id)["state"] == "succeeded"
    assert service.text(job_id).split() == ["loaded", "own", "reads", "writes", "65534"]


def running_note(service: RunningService, job_id: str) -> str:
    return next(event["cause"] for event in service.client.jobs.story(job_id) if event["kind"] == "running")


def processes_with(text: str) -> list[str]:
    """Return the command lines of processes that contain the text."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if text in line]
