"""Tests of the supervisor as a program: its imports, and tasks that run as another user."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import gpusquad
from gpusquad.engines.local import folders
from gpusquad.engines.local.engine import LocalEngine
from gpusquad.gpu.attach.library import ROOTS
from tests.engines.harness import Bench, lines
from tests.engines.local.helpers import supervisor_pid, wait_gone

NOBODY = (65534, 65534)


def test_supervisor_imports_only_the_standard_library() -> None:
    root = Path(gpusquad.__file__).parents[1]
    program = (
        f"import sys; sys.path.append({str(root)!r})\n"
        "import gpusquad.engines.local.supervisor.main\n"
        "print(*{name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names) - {'__main__'})\n"
        "print(*[name for name in sys.modules if name.startswith('gpusquad.')])\n"
        "print(*{'threading', 'dataclasses', 'subprocess', 'logging', 'pathlib'} & sys.modules.keys())"
    )
    result = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    packages, modules, slow_modules = result.stdout.split("\n")[:3]
    assert packages == "gpusquad"
    assert all(name.startswith("gpusquad.engines") for name in modules.split())
    assert slow_modules == ""


root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as another user")


@pytest.fixture
def open_home() -> Iterator[Path]:
    """A home that other users can reach, unlike pytest's folders."""
    folder = Path(tempfile.mkdtemp(prefix="gpusquad-test-"))
    folder.chmod(0o755)
    (folder / "said").mkdir()
    (folder / "said").chmod(0o777)
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture
def open_bench(open_home: Path) -> Iterator[Bench]:
    created = Bench(partial(LocalEngine, open_home), open_home.parent)
    yield created
    created.close()


def test_library_folder_stays_readable_for_other_users(tmp_path: Path) -> None:
    """The home of a service that runs as root contains root's library folder, as with the systemd unit."""
    home = ROOTS.parent.name
    library = tmp_path / home / ROOTS.name
    library.mkdir(parents=True)
    (tmp_path / home / "gpusquad.db").touch()
    for path in (library, tmp_path / home / "gpusquad.db"):
        path.chmod(0o755)
    folders._close_rest(tmp_path / home)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (library, tmp_path / home / "gpusquad.db")]
    assert modes == [0o755, 0o700]


@root_only
def test_tasks_run_as_another_user(open_bench: Bench, open_home: Path) -> None:
    folder = open_bench.folder / "said"
    command = (
        f"id -u > {folder}/uid; id -g > {folder}/gid; id -G > {folder}/groups; echo $HOME $USER > {folder}/home; "
        "echo 1 2 3 > $GPUSQUAD_PROGRESS; echo saved > $GPUSQUAD_CHECKPOINT_DIR/file; echo reopened > /dev/stdout"
    )
    open_bench.launch("job", command, run_as=NOBODY)
    assert open_bench.reports.started("job").note == ""
    assert open_bench.reports.ended("job").how == "succeeded"
    assert [lines(folder / name)[0] for name in ("uid", "gid")] == ["65534", "65534"]
    assert "0" not in lines(folder / "groups")[0].split()
    assert (open_home / "checkpoints/job/file").read_text() == "saved\n"
    assert (open_home / "runs/job/0/progress/0").read_text() == "1 2 3\n"


@root_only
def test_task_of_another_user_cannot_read_the_home(open_bench: Bench, open_home: Path) -> None:
    open_home.mkdir()
    (open_home / "gpusquad.db").write_text("all there is")
    (open_home / "secrets").mkdir(mode=0o755)
    folder = open_bench.folder / "said"
    commands = [f"cat {open_home}/gpusquad.db", f"ls {open_home}", f"ls {open_home}/secrets", f"ls {open_home}/runs",
             f"cat {open_home}/runs/job/0/status.json", f"ls {open_home}/runs/job/0/logs",
             f"touch {open_home}/runs/job/0/stop.json"]  # fmt: skip
    open_bench.launch(
        "job", "".join(f"{command} >> {folder}/seen 2> /dev/null && exit 1\n" for command in commands), run_as=NOBODY
    )
    end = open_bench.reports.ended("job")
    assert lines(folder / "seen") == []
    assert end.first is None or "exit code 1" in end.cause


@root_only
def test_tasks_of_another_user_die_with_their_supervisor(open_bench: Bench, open_home: Path) -> None:
    """A change of user clears the parent-death signal, so it must be set afterwards."""
    open_bench.launch("job", "sleep 600", run_as=NOBODY)
    pid = open_bench.reports.started("job").pids[0]
    open_bench.engine.close()
    os.kill(supervisor_pid(open_home, "job"), 9)
    wait_gone(pid)


@root_only
def test_unreachable_home_is_noted_for_tasks_of_another_user(bench: Bench) -> None:
    bench.launch("job", "true", run_as=NOBODY)
    assert "cannot write to" in bench.reports.started("job").note


@root_only
def test_working_folder_is_entered_with_the_permissions_of_the_user(open_bench: Bench) -> None:
    secret = open_bench.folder / "secret"
    secret.mkdir(mode=0o700)
    open_bench.launch("job", "true", run_as=NOBODY, workdir=str(secret))
    end = open_bench.reports.ended("job")
    assert "Permission denied" in end.cause
    assert end.never_started
