"""Two jobs on one card, each kept to its part: the real service, daemon and library, over the stand-in driver."""

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
SERVICE = """
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

CLIMBER = """
import os, sys, time
from tests.gpu.standin.client import Cuda

cuda = Cuda()
cuda.free(cuda.alloc(3 << 30))
print("{}", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""
"""What it held at most it gave back at once."""

LOOPER = """
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
"""On the stand-in."""


class Story:
    """A service on a machine with one stand-in card."""

    def __init__(
        self, folder: Path, run: Path, built: Path, virtual: int, strangers: str = "report", mps: str = "off"
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
            f'unmanaged = "{strangers}"\n'
            f"[cluster]\nsample_every_s = 0.2\nvirtual = {virtual}\n"
        )
        self.service = RunningService(folder / "home", config=config)

    def start(self) -> RunningService:
        return self.service.start(environment=self.driver | self._cache).checked()

    def submit(self, name: str, share: dict[str, Any] | None, *sizes: int, **more: Any) -> str:
        """A job that allocates so much, says how that went, and waits to be let go."""
        env = {name: value for name, value in self.driver.items() if name.startswith("STANDIN_")}
        command = [*more.pop("under", ()), *self.program(self.go, *sizes)]
        room = {"gpus": 1} if share is None else {"share": share}
        file = {"name": name, **room, "command": command, "env": env | {"PYTHONPATH": str(ROOT)}}
        return self.service.client.jobs.submit(file | {"workdir": str(self.folder)} | more)["jobs"][0]["id"]

    def program(self, go: Path, *sizes: int) -> list[str]:
        return [sys.executable, str(self.folder / "program.py"), str(go), ",".join(map(str, sizes))]

    def said(self, job_id: str) -> dict[str, Any]:
        until(lambda: "\n" in self.service.text(job_id), lambda: f"{self.service.text(job_id)}\n{self.service.log()}")
        return json.loads(self.service.text(job_id).splitlines()[-1])

    @property
    def sockets(self) -> list[Path]:
        return list(self.run.glob(f"*/cards/*/{SOCKET}"))

    def tenants(self) -> dict[str, dict[str, Any]]:
        [socket] = self.sockets
        return {one["id"]: one for one in ask(socket, {"do": "status"})["tenants"]}


ROOT = Path(__file__).parents[2]


def until(holds: Callable[[], Any], what: Callable[[], str]) -> None:
    """For what nobody tells of."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """That every user can pass into, other than those of the test runner."""
    folder = Path(tempfile.mkdtemp(prefix="gsq-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def built() -> Iterator[Path]:
    """The stand-in driver, and the library once a service has built it."""
    with open_folder() as folder:
        yield folder


@pytest.fixture
def story(built: Path, request: pytest.FixtureRequest) -> Iterator[Story]:
    run = Path(tempfile.mkdtemp(prefix="gsq-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    run.chmod(0o755)
    with open_folder() as folder:
        param = getattr(request, "param", 1)
        made = Story(folder, run, built, *(param if isinstance(param, tuple) else (param,)))
        yield made
        made.go.touch()
        made.service.end()
        for socket in made.sockets:
            stop_daemon(socket)
        shutil.rmtree(run, ignore_errors=True)


def stop_daemon(socket: Path) -> None:
    try:
        ask(socket, {"do": "stop"})
    except OSError:
        return


def test_two_jobs_on_one_card_keep_to_their_parts_and_leave_nothing(story: Story) -> None:
    service = story.start()
    assert not service.client.cluster.summary()["simulated"]
    small = story.submit("small", {"memory": "2GiB", "sm": 0.25}, GIB, 3 * GIB // 2)
    large = story.submit("large", {"memory": "6GiB", "sm": 0.5, "isolation": "isolated"}, 5 * GIB, priority="high")
    # Over its quota is the ordinary out-of-memory error, though the card has room; the quota is the card it sees.
    assert story.said(small) == {"answers": [0, 2], "total": 2 * GIB}
    assert story.said(large) == {"answers": [0], "total": 6 * GIB}
    jobs = {job["name"]: job["share"] for job in card_of(service)["jobs"]}
    assert jobs == {
        "small": {"sm": 0.25, "memory_bytes": 2 * GIB, "isolation": "shared"},
        "large": {"sm": 0.5, "memory_bytes": 6 * GIB, "isolation": "isolated"},
    }
    used = {name: one["used_bytes"] for name, one in story.tenants().items()}
    assert used == {f"{small}.0/0": GIB + CONTEXT_BYTES, f"{large}.0/0": 5 * GIB + CONTEXT_BYTES}
    now = service.client.cards.get(card_of(service)["id"])["now"]
    assert now is not None
    assert now["context_bytes"] == CONTEXT_BYTES, "as was found out on the card"
    notes = {name: running_note(service, job_id) for name, job_id in (("small", small), ("large", large))}
    assert "MPS is turned off" in notes["small"]
    assert "MPS" not in notes["large"]
    story.go.touch()
    assert {service.wait(job_id)["state"] for job_id in (small, large)} == {"succeeded"}
    until(lambda: not story.sockets, lambda: f"the daemon stays: {story.tenants()}")
    until(lambda: not processes_with(str(story.run)), lambda: f"still there: {processes_with(str(story.run))}")


def test_memory_that_a_job_never_used_goes_to_another_while_it_runs(story: Story) -> None:
    service = story.start()
    first = story.submit("first", {"memory": "14GiB"}, GIB)
    story.said(first)
    second = story.submit("second", {"memory": "4GiB"}, 3 * GIB)
    with pytest.raises(ApiError, match=r"1\.1 GB that the client holds"):
        service.client.jobs.update(first, {"memory": "512MiB"})
    assert service.client.jobs.get(second)["state"] == "pending"
    until(lambda: story.tenants()[f"{first}.0/0"]["quota_bytes"] == 14 * GIB, lambda: str(story.tenants()))
    service.client.jobs.update(first, {"memory": "2GiB"})
    assert story.said(second) == {"answers": [0], "total": 4 * GIB}
    assert {name: one["quota_bytes"] for name, one in story.tenants().items()} == {
        f"{first}.0/0": 2 * GIB, f"{second}.0/0": 4 * GIB,
    }  # fmt: skip
    service.client.jobs.update(first, {"memory": "8GiB"})
    until(lambda: story.tenants()[f"{first}.0/0"]["quota_bytes"] == 8 * GIB, lambda: str(story.tenants()))
    service.client.jobs.update(first, {"memory": "25%"})
    assert story.tenants()[f"{first}.0/0"]["quota_bytes"] == 4 * GIB
    service.client.jobs.update(first, {"memory": "62.5%"})
    until(lambda: story.tenants()[f"{first}.0/0"]["quota_bytes"] == 10 * GIB, lambda: str(story.tenants()))
    story.go.touch()
    assert {service.wait(job_id)["state"] for job_id in (first, second)} == {"succeeded"}


def test_what_a_job_held_at_most_is_known_to_a_service_that_came_later(story: Story) -> None:
    service = story.start()
    (story.folder / "climber.py").write_text(CLIMBER)
    command = [sys.executable, str(story.folder / "climber.py"), str(story.go)]
    job = story.submit("climber", {"memory": "8GiB"}, command=command)
    story.said(job)
    service.kill()
    story.start()
    assert service.client.jobs.get(job)["state"] == "running"
    memory = service.client.jobs.update(job, {"memory": "peak"})["memory"]
    assert memory == story.tenants()[f"{job}.0/0"]["quota_bytes"]
    assert 1.1 * (3 * GIB + CONTEXT_BYTES) <= memory < 3.5 * GIB
    story.go.touch()
    assert service.wait(job)["state"] == "succeeded"


def test_iterations_are_told_of_a_program_that_says_nothing_of_them(story: Story) -> None:
    story.start()
    (story.folder / "looper.py").write_text(LOOPER)
    command = [sys.executable, str(story.folder / "looper.py"), str(story.go)]
    job = story.submit("looper", {"memory": "1GiB"}, command=command)

    def per_s() -> float:
        now = story.service.client.cards.get("0")["now"]
        return sum(one.get("iterations_per_s") or 0.0 for one in now["tenants"]) if now else 0.0

    story.said(job)
    until(lambda: 10 < per_s() < 100, lambda: str(story.tenants()))
    story.go.touch()
    story.service.wait(job)


def test_a_service_says_how_long_requests_take_and_its_goal_is_judged_by_that(story: Story) -> None:
    story.start()
    (story.folder / "service.py").write_text(SERVICE)
    command = [sys.executable, str(story.folder / "service.py"), str(story.go)]
    env = {name: value for name, value in story.driver.items() if name.startswith("STANDIN_")}
    env["PYTHONPATH"] = f"{ROOT / 'src'}:{ROOT}"
    job = story.submit("service", {"memory": "4GiB"}, command=command, env=env, slo={"p99": "20ms"})
    story.said(job)
    until(lambda: 0.7 < next(iter(story.tenants().values()))["attainment"] < 0.8, lambda: str(story.tenants()))
    [shown] = story.service.client.cards.get("0")["now"]["tenants"]
    assert 0.7 < shown["attainment_ratio"] < 0.8
    story.go.touch()
    story.service.wait(job)


@pytest.mark.parametrize("story", [(2, "report", "auto")], indirect=True)
def test_two_virtual_cards_are_two_smaller_cards(story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_mps(tmp_path, monkeypatch)
    service = story.start()
    cards = [card for node in service.client.cluster.nodes() for card in node["cards"]]
    assert [card["id"].rpartition(".")[2] for card in cards] == ["1of2", "2of2"]
    jobs = [story.submit(name, None, CARD_BYTES // 4, CARD_BYTES // 2) for name in ("left", "right")]
    for job_id in jobs:
        assert story.said(job_id) == {"answers": [0, 2], "total": CARD_BYTES // 2}
    waits = story.submit("waits", None, GIB)
    held = {one["within"] for one in story.tenants().values()}
    assert held == {0b01, 0b10}
    shown = service.client.cards.get("1")["now"]
    assert shown is not None
    assert [(one["groups"], one["sm_ratio"]) for one in shown["tenants"]] == [(1, 0.5), (1, 0.5)]
    assert service.client.jobs.get(waits)["state"] == "pending"
    story.go.touch()
    assert {service.wait(job_id)["state"] for job_id in (*jobs, waits)} == {"succeeded"}


@pytest.mark.parametrize("story", [2], indirect=True)
def test_without_mps_virtual_cards_take_turns_on_all_sms(story: Story) -> None:
    service = story.start()
    jobs = [story.submit(name, None, CARD_BYTES // 4, CARD_BYTES // 2) for name in ("left", "right")]
    for job_id in jobs:
        assert story.said(job_id) == {"answers": [0, 2], "total": CARD_BYTES // 2}
    assert {(one["within"], one["sm_milli"]) for one in story.tenants().values()} == {(0, 500)}
    assert "time-sliced with the other virtual cards" in running_note(service, jobs[0])
    story.go.touch()
    assert {service.wait(job_id)["state"] for job_id in jobs} == {"succeeded"}


def test_a_service_that_was_killed_finds_its_tenants_again(story: Story) -> None:
    service = story.start()
    job_id = story.submit("stays", {"memory": "2GiB"}, GIB)
    ends = story.submit("ends", {"memory": "1GiB"}, GIB // 2)
    story.said(job_id)
    story.said(ends)
    service.kill()
    assert set(story.tenants()) == {f"{job_id}.0/0", f"{ends}.0/0"}
    story.start()
    service.client.jobs.cancel(ends)
    service.wait(ends, "cancelled")
    until(lambda: set(story.tenants()) == {f"{job_id}.0/0"}, lambda: str(story.tenants()))
    service.client.jobs.update(job_id, {"priority": "urgent"})
    until(lambda: story.tenants()[f"{job_id}.0/0"]["priority"] == 2, lambda: str(story.tenants()))
    story.go.touch()
    assert service.wait(job_id)["state"] == "succeeded"
    until(lambda: not story.sockets, lambda: f"the daemon stays: {story.tenants()}")


def test_a_process_that_nobody_started_here_is_told_of_once(story: Story) -> None:
    service = story.start()
    job_id = story.submit("job", {"memory": "2GiB"}, GIB)
    story.said(job_id)
    env = os.environ | story.driver | {"PYTHONPATH": str(ROOT)}
    leave = story.folder / "leave"
    with subprocess.Popen(story.program(leave, GIB), env=env, stdout=subprocess.DEVNULL) as stranger:
        try:
            until(lambda: told_of_strangers(service), service.log)
            assert str(stranger.pid) in told_of_strangers(service)[0]
            story.said(story.submit("joins", {"memory": "2GiB"}, GIB))  # people are told, no more
            assert card_of(service)["state"] == "shared"
        finally:
            leave.touch()
    story.go.touch()
    assert service.wait(job_id)["state"] == "succeeded"
    assert len(told_of_strangers(service)) == 1, told_of_strangers(service)


def test_a_program_of_a_job_that_sheds_the_library_is_told_of(story: Story) -> None:
    service = story.start()
    job_id = story.submit("job", {"memory": "2GiB"}, 4 * GIB, under=["env", "-u", "LD_PRELOAD"])
    assert story.said(job_id)["answers"] == [0], "nothing holds it"
    until(lambda: told_of_strangers(service), service.log)
    assert job_id in told_of_strangers(service)[0]
    [socket] = story.sockets
    [stranger] = ask(socket, {"do": "status"})["strangers"]
    assert stranger["memory_bytes"] >= 4 * GIB
    story.go.touch()
    assert service.wait(job_id)["state"] == "succeeded"


@pytest.mark.parametrize("story", [(1, "refuse")], indirect=True)
def test_nobody_is_put_beside_a_stranger_where_that_is_refused(story: Story) -> None:
    service = story.start()
    first = story.submit("first", {"memory": "2GiB"}, GIB)
    story.said(first)
    env = os.environ | story.driver | {"PYTHONPATH": str(ROOT)}
    leave = story.folder / "leave"
    with subprocess.Popen(story.program(leave, GIB), env=env, stdout=subprocess.DEVNULL) as stranger:
        try:
            until(lambda: card_of(service)["state"] == "taken_outside", service.log)
            waits = story.submit("waits", {"memory": "2GiB"}, GIB)
            until(lambda: why(service, waits), service.log)
            assert f"(pid {stranger.pid})" in why(service, waits)
            assert service.client.jobs.get(waits)["state"] == "pending"
        finally:
            leave.touch()
    story.said(waits)
    story.go.touch()
    assert {service.wait(job_id)["state"] for job_id in (first, waits)} == {"succeeded"}


def why(service: RunningService, job_id: str) -> str:
    return "; ".join(one["message"] for one in service.client.jobs.why(job_id)["reasons"])


def told_of_strangers(service: RunningService) -> list[str]:
    lines = (service.home / "server.log").read_text("utf-8", "replace").splitlines()
    return [line for line in lines if "unmanaged process on a shared card" in line]


def card_of(service: RunningService) -> dict[str, Any]:
    return dict(service.client.cluster.nodes()[0]["cards"][0])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start tasks as another user")
def test_tasks_of_another_user_load_the_library_and_write_to_their_own_page_alone(story: Story) -> None:
    service = story.start()
    story.said(story.submit("neighbour", {"memory": "2GiB"}, GIB))
    service.client.people.set_tenant("default", {"run_as": "65534:65534"})
    command = """
grep -q libgpusquad /proc/self/maps && echo loaded
test -w "$GPUSQUAD_TENANT" && echo own
for file in "$(dirname "$GPUSQUAD_TENANT")"/*; do test -w "$file" && echo writes || echo reads; done | sort
id -u
"""
    asked = {"share": {"memory": "1GiB"}, "command": command, "workdir": "/"}
    job_id = service.client.jobs.submit(asked)["jobs"][0]["id"]
    assert service.wait(job_id)["state"] == "succeeded"
    assert service.text(job_id).split() == ["loaded", "own", "reads", "writes", "65534"]


def running_note(service: RunningService, job_id: str) -> str:
    return next(event["cause"] for event in service.client.jobs.story(job_id) if event["kind"] == "running")


def processes_with(text: str) -> list[str]:
    """Command lines that name this."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if text in line]
