"""Tests of the environment variables of a task."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpusquad.core.ports import Launch, TaskLaunch
from gpusquad.engines.local import environment
from tests.engines.harness import Bench, launch, lines

SERVICE_ENV = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LC_ALL": "C",
    "AWS_SECRET": "hidden",
    "PYTHONPATH": "/x",
    "TZ": "UTC",
}


def variables(gang: Launch, rank: int = 0, uuid_of: Callable[[str], str] = str) -> dict[str, str]:
    ports = range(20_000, 20_001 + len(gang.tasks))
    return environment.variables(gang, gang.tasks[rank], Path("/home/g"), ports, SERVICE_ENV, uuid_of)


def test_environment_describes_the_job() -> None:
    found = variables(launch("job", "true", "true", attempt=3, name="my job"), rank=1)
    assert found["GPUSQUAD_JOB"] == "job"
    assert found["GPUSQUAD_JOB_NAME"] == "my job"
    assert found["GPUSQUAD_ATTEMPT"] == "3"
    assert found["GPUSQUAD_TASK"] == "1"
    assert found["GPUSQUAD_ROLE"] == "worker"
    assert found["GPUSQUAD_CHECKPOINT_DIR"] == "/home/g/checkpoints/job"
    assert found["GPUSQUAD_PROGRESS"] == "/home/g/runs/job/3/progress/1"
    assert "GPUSQUAD_SIMULATED" not in found


def test_environment_describes_the_cards() -> None:
    found = variables(launch("job", "true", cards=("a", "b")), uuid_of=lambda card: f"GPU-{card}")
    assert found["GPUSQUAD_CARDS"] == "a,b"
    assert found["CUDA_VISIBLE_DEVICES"] == found["NVIDIA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_task_without_cards_sees_none() -> None:
    found = variables(launch("job", "true"))
    assert found["CUDA_VISIBLE_DEVICES"] == found["NVIDIA_VISIBLE_DEVICES"] == ""


def test_simulated_cards_hide_the_real_ones() -> None:
    found = variables(launch("job", "true", cards=("a",), simulated=True))
    assert (found["GPUSQUAD_SIMULATED"], found["GPUSQUAD_CARDS"]) == ("1", "a")
    assert found["CUDA_VISIBLE_DEVICES"] == ""


def test_environment_describes_the_gang() -> None:
    gang = launch("job", "true", "true")
    found = [variables(gang, rank) for rank in (0, 1)]
    assert [env["RANK"] for env in found] == ["0", "1"]
    assert [env["LOCAL_RANK"] for env in found] == ["0", "1"]
    for env in found:
        assert (env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]) == ("2", "2")
        assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("127.0.0.1", "20000")


def test_local_rank_is_0_when_each_task_sees_its_own_card() -> None:
    """Each task sees only its own card, as device 0, and programs select their device by this variable."""
    tasks = [TaskLaunch(rank, "worker", rank, "node", (f"card{rank}",), ("true",)) for rank in range(4)]
    gang = replace(launch("job", "true"), tasks=tuple(tasks))
    for rank in range(4):
        assert variables(gang, rank)["LOCAL_RANK"] == "0"
        assert variables(gang, rank)["LOCAL_WORLD_SIZE"] == "1"


def test_tensorflow_environment_is_set() -> None:
    tasks = (
        TaskLaunch(0, "ps", 0, "node", (), ("true",)),
        TaskLaunch(1, "worker", 0, "node", (), ("true",)),
        TaskLaunch(2, "worker", 1, "node", (), ("true",)),
    )
    found = variables(replace(launch("job", "true"), tasks=tasks), rank=2)
    assert json.loads(found["TF_CONFIG"]) == {
        "cluster": {"ps": ["127.0.0.1:20001"], "worker": ["127.0.0.1:20002", "127.0.0.1:20003"]},
        "task": {"type": "worker", "index": 1},
    }


def test_only_selected_variables_of_the_service_are_passed_on() -> None:
    found = variables(launch("job", "true"))
    assert (found["PATH"], found["HOME"], found["LC_ALL"], found["TZ"]) == ("/bin", "/home/me", "C", "UTC")
    assert not {"AWS_SECRET", "PYTHONPATH"} & found.keys()


def test_user_variables_override_the_service_but_not_gpusquad() -> None:
    user_env = {"PATH": "/mine", "A": "1", "CUDA_VISIBLE_DEVICES": "all", "GPUSQUAD_JOB": "x", "PYTHONUNBUFFERED": "0"}
    found = variables(launch("job", "true", env=user_env, secrets={"A": "2", "KEY": "secret"}))
    assert (found["PATH"], found["A"], found["KEY"]) == ("/mine", "2", "secret")
    assert (found["CUDA_VISIBLE_DEVICES"], found["GPUSQUAD_JOB"]) == ("", "job")
    assert found["PYTHONUNBUFFERED"] == "0"
    assert variables(launch("job", "true"))["PYTHONUNBUFFERED"] == "1"


def test_tasks_see_the_environment(bench: Bench, home: Path) -> None:
    seen = bench.folder / "seen"
    bench.launch(
        "job", f"env -0 | tr '\\0' '\\n' > {seen}", env={"WORD": "낱말 \udcff"}, secrets={"KEY": "very secret"}
    )
    assert bench.reports.ended("job").how == "succeeded"
    found = dict(line.split("=", 1) for line in lines(seen))
    assert (found["WORD"], found["KEY"], found["RANK"]) == ("낱말 \udcff", "very secret", "0")
    assert int(found["MASTER_PORT"]) > 1024
    assert Path(found["GPUSQUAD_CHECKPOINT_DIR"]).is_dir()
    assert Path(found["GPUSQUAD_PROGRESS"]).parent.is_dir()


def test_secrets_are_not_written_to_disk(bench: Bench, home: Path) -> None:
    bench.launch("job", "true", secrets={"KEY": "very secret"})
    bench.reports.ended("job")
    for path in home.rglob("*"):
        assert path.is_dir() or b"very secret" not in path.read_bytes()


@pytest.mark.parametrize("part", ["runs", "runs/job", "runs/job/0", "runs/job/0/logs", "checkpoints/job"])
def test_folders_are_private(bench: Bench, home: Path, part: str) -> None:
    bench.launch("job", "true")
    bench.reports.ended("job")
    assert (home / part).stat().st_mode & 0o777 == 0o700


def test_running_gangs_have_different_master_ports(bench: Bench) -> None:
    seen = bench.folder / "seen"
    for number in range(10):
        bench.launch(f"job{number}", f"echo $MASTER_PORT >> {seen}; sleep 0.5")
    for number in range(10):
        bench.reports.ended(f"job{number}")
    assert len(set(lines(seen))) == 10
