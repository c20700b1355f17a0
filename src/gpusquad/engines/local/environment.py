"""Environment variables of a task."""

from __future__ import annotations

import json
import pwd
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from gpusquad.core.ports import Launch, TaskLaunch
from gpusquad.engines.local.names import checkpoint_path, run_path

_ADDRESS = "127.0.0.1"
_PASSED_ON = ("PATH", "HOME", "LANG", "USER", "TZ", "LD_LIBRARY_PATH", "TMPDIR", "VIRTUAL_ENV")
_PRELOAD = "LD_PRELOAD"
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def variables(
    launch: Launch,
    task: TaskLaunch,
    home: Path,
    ports: Sequence[int],
    own: Mapping[str, str],
    uuid_of: Callable[[str], str],
    part: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Variables of one task. ``ports``: one for the gang, then one per task. ``own``: those of the service. ``part``:
    those that enforce its share of a card.

    Ours take precedence over the user's: otherwise a job could use cards that were not allocated to it.
    """
    found = {
        "PYTHONUNBUFFERED": "1",
        **_from_service(own, launch.run_as),
        **task.env,
        **launch.secrets,
        **_about_job(launch, task, home),
        **_about_cards(launch, task, uuid_of),
        **_about_gang(launch, task, ports),
    }
    return {**found, **part, **_preloaded(found, part)}


def home_folder(own: Mapping[str, str], run_as: tuple[int, int] | None) -> str:
    """Working folder of a task that names none."""
    return _from_service(own, run_as).get("HOME") or "/"


def _from_service(own: Mapping[str, str], run_as: tuple[int, int] | None) -> dict[str, str]:
    passed = {name: value for name, value in own.items() if name in _PASSED_ON or name.startswith("LC_")}
    return {"PATH": _DEFAULT_PATH, **passed, **_about_user(run_as)}


def _about_user(run_as: tuple[int, int] | None) -> dict[str, str]:
    if run_as is None:
        return {}
    try:
        person = pwd.getpwuid(run_as[0])
    except KeyError:
        return {"HOME": "/", "USER": str(run_as[0]), "LOGNAME": str(run_as[0])}
    return {"HOME": person.pw_dir, "USER": person.pw_name, "LOGNAME": person.pw_name}


def _about_job(launch: Launch, task: TaskLaunch, home: Path) -> dict[str, str]:
    found = {
        "GPUSQUAD_JOB": launch.job_id,
        "GPUSQUAD_JOB_NAME": launch.name,
        "GPUSQUAD_ATTEMPT": str(launch.attempt),
        "GPUSQUAD_TASK": str(task.index),
        "GPUSQUAD_ROLE": task.role,
        "GPUSQUAD_CHECKPOINT_DIR": str(checkpoint_path(home, launch.job_id)),
        "GPUSQUAD_PROGRESS": str(run_path(home, launch.job_id, launch.attempt) / "progress" / str(task.index)),
    }
    return {**found, "GPUSQUAD_SIMULATED": "1"} if launch.simulated else found


def _about_cards(launch: Launch, task: TaskLaunch, uuid_of: Callable[[str], str]) -> dict[str, str]:
    """Simulated cards are named to the task, and real ones are hidden from it."""
    visible = "" if launch.simulated else ",".join(uuid_of(card) for card in task.cards)
    return {
        "GPUSQUAD_CARDS": ",".join(task.cards),
        "CUDA_VISIBLE_DEVICES": visible,
        "NVIDIA_VISIBLE_DEVICES": visible,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def _preloaded(found: Mapping[str, str], part: Mapping[str, str]) -> dict[str, str]:
    """Ours first; the user's own preloads follow."""
    theirs, ours = found.get(_PRELOAD), part.get(_PRELOAD)
    return {_PRELOAD: f"{ours}:{theirs}"} if theirs and ours else {}


def _about_gang(launch: Launch, task: TaskLaunch, ports: Sequence[int]) -> dict[str, str]:
    local_rank, local_size = _local(launch, task)
    return {
        "RANK": str(task.index),
        "WORLD_SIZE": str(len(launch.tasks)),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(local_size),
        "MASTER_ADDR": _ADDRESS,
        "MASTER_PORT": str(ports[0]),
        "TF_CONFIG": json.dumps(_tensorflow(launch, task, ports)),
    }


def _local(launch: Launch, task: TaskLaunch) -> tuple[int, int]:
    """Rank and number among the tasks that see the same cards.

    Programs use the local rank as the index of their card. A task sees only its own cards, so the local rank of a task
    with cards is 0. Tasks without cards count those of their node.
    """
    if task.cards:
        return 0, 1
    beside = [other.index for other in launch.tasks if other.node == task.node and not other.cards]
    return beside.index(task.index), len(beside)


def _tensorflow(launch: Launch, task: TaskLaunch, ports: Sequence[int]) -> dict:
    cluster: dict[str, list[str]] = {}
    for other in sorted(launch.tasks, key=lambda other: (other.role, other.role_index)):
        cluster.setdefault(other.role, []).append(f"{_ADDRESS}:{ports[1 + other.index]}")
    return {"cluster": cluster, "task": {"type": task.role, "index": task.role_index}}
