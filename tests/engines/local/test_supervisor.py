"""The supervisor as a program: light, alone, and careful with users."""

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


def test_nothing_but_the_standard_library() -> None:
    root = Path(gpusquad.__file__).parents[1]
    program = (
        f"import sys; sys.path.append({str(root)!r})\n"
        "import gpusquad.engines.local.supervisor.main\n"
        "print(*{name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names) - {'__main__'})\n"
        "print(*[name for name in sys.modules if name.startswith('gpusquad.')])\n"
        "print(*{'threading', 'dataclasses', 'subprocess', 'logging', 'pathlib'} & sys.modules.keys())"
    )
    shown = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    ours, modules, heavy = shown.stdout.split("\n")[:3]
    assert ours == "gpusquad"
    assert all(name.startswith("gpusquad.engines") for name in modules.split())
    assert heavy == ""


root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as another user")


@pytest.fixture
def open_home() -> Iterator[Path]:
    """Where another user can get to, unlike pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="gpusquad-test-"))
    folder.chmod(0o755)
    (folder / "said").mkdir()
    (folder / "said").chmod(0o777)
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture
def open_bench(open_home: Path) -> Iterator[Bench]:
    made = Bench(partial(LocalEngine, open_home), open_home.parent)
    yield made
    made.close()


def test_the_library_for_tasks_of_other_users_stays_open(tmp_path: Path) -> None:
    """A service that runs as root has its home where root's library is, as the systemd unit has it."""
    home = ROOTS.parent.name
    library = tmp_path / home / ROOTS.name
    library.mkdir(parents=True)
    (tmp_path / home / "gpusquad.db").touch()
    for place in (library, tmp_path / home / "gpusquad.db"):
        place.chmod(0o755)
    folders._close_rest(tmp_path / home)
    modes = [stat.S_IMODE(place.stat().st_mode) for place in (library, tmp_path / home / "gpusquad.db")]
    assert modes == [0o755, 0o700]


@root_only
def test_tasks_run_as_another_user(open_bench: Bench, open_home: Path) -> None:
    said = open_bench.folder / "said"
    command = (
        f"id -u > {said}/uid; id -g > {said}/gid; id -G > {said}/groups; echo $HOME $USER > {said}/home; "
        "echo 1 2 3 > $GPUSQUAD_PROGRESS; echo saved > $GPUSQUAD_CHECKPOINT_DIR/file; echo reopened > /dev/stdout"
    )
    open_bench.launch("job", command, run_as=NOBODY)
    assert open_bench.reports.started("job").note == ""
    assert open_bench.reports.ended("job").how == "succeeded"
    assert [lines(said / name)[0] for name in ("uid", "gid")] == ["65534", "65534"]
    assert "0" not in lines(said / "groups")[0].split()
    assert (open_home / "checkpoints/job/file").read_text() == "saved\n"
    assert (open_home / "runs/job/0/progress/0").read_text() == "1 2 3\n"


@root_only
def test_another_user_sees_nothing_of_ours(open_bench: Bench, open_home: Path) -> None:
    open_home.mkdir()
    (open_home / "gpusquad.db").write_text("all there is")
    (open_home / "secrets").mkdir(mode=0o755)
    said = open_bench.folder / "said"
    tries = [f"cat {open_home}/gpusquad.db", f"ls {open_home}", f"ls {open_home}/secrets", f"ls {open_home}/runs",
             f"cat {open_home}/runs/job/0/status.json", f"ls {open_home}/runs/job/0/logs",
             f"touch {open_home}/runs/job/0/stop.json"]  # fmt: skip
    open_bench.launch("job", "".join(f"{one} >> {said}/seen 2> /dev/null && exit 1\n" for one in tries), run_as=NOBODY)
    end = open_bench.reports.ended("job")
    assert lines(said / "seen") == []
    assert end.first is None or "exit code 1" in end.cause


@root_only
def test_tasks_of_another_user_die_with_their_supervisor(open_bench: Bench, open_home: Path) -> None:
    """A change of user undoes the tie, so it must be made after."""
    open_bench.launch("job", "sleep 600", run_as=NOBODY)
    pid = open_bench.reports.started("job").pids[0]
    open_bench.engine.close()
    os.kill(supervisor_pid(open_home, "job"), 9)
    wait_gone(pid)


@root_only
def test_a_home_that_another_user_cannot_reach_is_noted(bench: Bench) -> None:
    bench.launch("job", "true", run_as=NOBODY)
    assert "cannot write to" in bench.reports.started("job").note


@root_only
def test_permissions_are_those_of_the_user(open_bench: Bench) -> None:
    secret = open_bench.folder / "secret"
    secret.mkdir(mode=0o700)
    open_bench.launch("job", "true", run_as=NOBODY, workdir=str(secret))
    end = open_bench.reports.ended("job")
    assert "Permission denied" in end.cause
    assert end.never_started
