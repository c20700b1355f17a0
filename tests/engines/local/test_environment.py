"""Tests of the environment variables of a task."""

from __future__ import annotations

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


def variables(
    gang: Launch, rank: int = 0, uuid_of: Callable[[str], str] = str, own: dict[str, str] = SERVICE_ENV
) -> dict[str, str]:
    home, ports = Path("/home/g"), range(20_000, 20_001 + len(gang.tasks))
    of_gang = environment.gang_of(gang, home, ports)
    return environment.variables(gang, gang.tasks[rank], home, of_gang, own, uuid_of)


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
    found = [variables(launch("job", "true", "true"), rank) for rank in (0, 1)]
    assert [env["RANK"] for env in found] == [env["GPUSQUAD_TASK"] for env in found] == ["0", "1"]
    for env in found:
        assert env["WORLD_SIZE"] == env["GPUSQUAD_TASKS"] == "2"
        assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("127.0.0.1", "20000")
        assert env["JAX_COORDINATOR_ADDRESS"] == "127.0.0.1:20001"
        assert env["GPUSQUAD_HOSTFILE"] == "/home/g/runs/job/0/hostfile"


@pytest.mark.parametrize("cards", [(), ("a",), ("a", "b", "c", "d")])
def test_single_task_gets_nothing_of_a_gang(cards: tuple[str, ...]) -> None:
    """Lightning, accelerate and the Hugging Face Trainer would not start their own processes."""
    found = variables(launch("job", "true", cards=cards))
    ours = ("GPUSQUAD_", "CUDA_", "NVIDIA_VISIBLE_", "PYTHONUNBUFFERED")
    assert {name for name in found if not name.startswith(ours)} == {"PATH", "HOME", "LC_ALL", "TZ", "PET_MASTER_PORT"}
    assert found["PET_MASTER_PORT"] == "20000", "two jobs of torchrun on one machine must not use the same port"
    assert found["GPUSQUAD_TASKS"] == "1"


def test_single_task_of_an_elastic_job_is_a_gang() -> None:
    found = variables(launch("job", "true", is_elastic=True))
    assert (found["RANK"], found["WORLD_SIZE"], found["PET_NNODES"]) == ("0", "1", "1")


def test_cards_of_a_task_decide_who_starts_processes() -> None:
    def gang(cards: tuple[str, ...]) -> Launch:
        tasks = [TaskLaunch(rank, "worker", rank, "node", cards, ("true",)) for rank in range(2)]
        return replace(launch("job", "true"), tasks=tuple(tasks))

    assert variables(gang(("a",)), 1)["LOCAL_RANK"] == "0"
    assert "LOCAL_RANK" not in variables(gang(("a", "b")), 1)


def test_settings_of_libraries_on_this_machine_are_passed_on() -> None:
    """A machine whose Open MPI needs OMPI_MCA_plm runs Lightning only with it, which asks MPI for its size."""
    settings = {
        "OMPI_MCA_plm": "isolated",
        "UCX_TLS": "tcp",
        "NCCL_SOCKET_IFNAME": "eth0",
        "CUDA_HOME": "/usr/local/cuda",
    }
    found = variables(launch("job", "true"), own=SERVICE_ENV | settings | {"OMPI_COMM_WORLD_RANK": "3"})
    assert {name: found.get(name) for name in settings} == settings
    assert "OMPI_COMM_WORLD_RANK" not in found, "the service may have been started by an MPI program"


def test_only_selected_variables_of_the_service_are_passed_on() -> None:
    found = variables(launch("job", "true"))
    assert (found["PATH"], found["HOME"], found["LC_ALL"], found["TZ"]) == ("/bin", "/home/me", "C", "UTC")
    assert not {"AWS_SECRET", "PYTHONPATH"} & found.keys()


def test_user_variables_override_those_of_frameworks() -> None:
    found = variables(launch("job", "true", "true", env={"MASTER_PORT": "7"}, secrets={"LOCAL_RANK": "8"}))
    assert (found["MASTER_PORT"], found["LOCAL_RANK"], found["RANK"]) == ("7", "8", "0")


def test_user_variables_override_the_service_but_not_gpusquad() -> None:
    user_env = {"PATH": "/mine", "A": "1", "CUDA_VISIBLE_DEVICES": "all", "GPUSQUAD_JOB": "x", "PYTHONUNBUFFERED": "0"}
    found = variables(launch("job", "true", env=user_env, secrets={"A": "2", "KEY": "secret"}))
    assert (found["PATH"], found["A"], found["KEY"]) == ("/mine", "2", "secret")
    assert (found["CUDA_VISIBLE_DEVICES"], found["GPUSQUAD_JOB"]) == ("", "job")
    assert found["PYTHONUNBUFFERED"] == "0"
    assert variables(launch("job", "true"))["PYTHONUNBUFFERED"] == "1"


def test_tasks_see_the_environment(bench: Bench, home: Path) -> None:
    seen = bench.folder / "seen"
    command = f"env -0 | tr '\\0' '\\n' > {seen}; cp $GPUSQUAD_HOSTFILE {seen}.hosts"
    bench.launch("job", command, "true", env={"WORD": "낱말 \udcff"}, secrets={"KEY": "very secret"})
    assert bench.reports.ended("job").how == "succeeded"
    found = dict(line.split("=", 1) for line in lines(seen))
    assert (found["WORD"], found["KEY"], found["RANK"]) == ("낱말 \udcff", "very secret", "0")
    assert int(found["MASTER_PORT"]) > 1024
    assert lines(Path(f"{seen}.hosts")) == ["localhost slots=2"]
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
        bench.launch(f"job{number}", f"echo $MASTER_PORT >> {seen}; sleep 0.5", "sleep 0.5")
    for number in range(10):
        bench.reports.ended(f"job{number}")
    assert len(set(lines(seen))) == 10
