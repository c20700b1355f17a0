"""Environment variables of a task."""

from __future__ import annotations

import pwd
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from gpusquad.core.ports import Launch, TaskLaunch
from gpusquad.engines.frameworks import LOOPBACK, Alone, Gang, Member
from gpusquad.engines.local.names import checkpoint_path, run_path

_PASSED_ON = ("PATH", "HOME", "LANG", "USER", "TZ", "LD_LIBRARY_PATH", "TMPDIR", "VIRTUAL_ENV")
_ABOUT_MACHINE = (
    "LC_", "CUDA_HOME", "CUDA_PATH", "OMPI_MCA_", "OPAL_", "PMIX_MCA_", "PRTE_MCA_", "UCX_", "FI_", "NCCL_", "GLOO_",
    "SSL_CERT_",
)  # fmt: skip
"""Starts of the names by which an administrator sets up libraries for all programs of a machine. Without them a program
fails in a job that works outside."""
_PRELOAD = "LD_PRELOAD"
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def variables(
    launch: Launch,
    task: TaskLaunch,
    home: Path,
    gang: Gang | Alone,
    own: Mapping[str, str],
    uuid_of: Callable[[str], str],
    part: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Variables of one task. ``gang``: from `gang_of`. ``own``: those of the service. ``part``: those that enforce its
    share of a card.

    The user's take precedence over those of frameworks. Those about the job and its cards take precedence over the
    user's: otherwise a job could use cards that were not allocated to it.
    """
    found = {
        "PYTHONUNBUFFERED": "1",
        **_from_service(own, launch.run_as),
        **(gang.variables(task.index) if isinstance(gang, Gang) else gang.variables()),
        **task.env,
        **launch.secrets,
        **_about_job(launch, task, home),
        **_about_cards(launch, task, uuid_of),
    }
    return {**found, **part, **_preloaded(found, part)}


def home_folder(own: Mapping[str, str], run_as: tuple[int, int] | None) -> str:
    """Working folder of a task that names none."""
    return _from_service(own, run_as).get("HOME") or "/"


def _from_service(own: Mapping[str, str], run_as: tuple[int, int] | None) -> dict[str, str]:
    passed = {name: value for name, value in own.items() if name in _PASSED_ON or name.startswith(_ABOUT_MACHINE)}
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
        "GPUSQUAD_TASKS": str(len(launch.tasks)),
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


def gang_of(launch: Launch, home: Path, ports: Sequence[int]) -> Gang | Alone:
    """The tasks as their programs see each other. ``ports``: one for the gang, then one per task."""
    if not launch.is_gang:
        return Alone(ports[0])
    members = [Member(task.role, LOOPBACK, ports[1 + task.index], len(task.cards)) for task in launch.tasks]
    return Gang(members, ports[0], str(run_path(home, launch.job_id, launch.attempt)))
