"""Starting, querying and stopping an MPS daemon, with a fake control program that records its commands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gpusquad.gpu.mps import PROGRAM, Mps, MpsDaemon, no_daemon_env, run_here
from gpusquad.model.errors import Invalid
from tests.gpu.mps_program import install_fake_mps_program

SCRIPT = """#!/bin/sh
{ echo "$@|$CUDA_MPS_PIPE_DIRECTORY|$CUDA_VISIBLE_DEVICES"; [ "$1" = -d ] || cat; } >>"$ASKED"
"""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return install_fake_mps_program(tmp_path, monkeypatch, SCRIPT)


def test_mps_sets_thread_percentages_and_removes_its_folder_at_stop(commands: Path) -> None:
    with Mps("3") as mps:
        whole, half = mps.env(), mps.env(500)
        pipes = Path(whole["CUDA_MPS_PIPE_DIRECTORY"])
        assert pipes.is_dir()
    started, stopped, command = commands.read_text().splitlines()
    assert started == f"-d|{pipes}|3"
    assert stopped.startswith(f"|{pipes}|")
    assert command.startswith("quit")
    assert not pipes.exists()
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in whole
    assert half["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    assert half["CUDA_VISIBLE_DEVICES"] == "0"  # the daemon has one card, with index 0


def test_mps_stops_after_an_error(commands: Path) -> None:
    with pytest.raises(ZeroDivisionError), Mps("GPU-1"):
        _ = 1 / 0
    assert "quit" in commands.read_text()


def test_card_uuid_is_kept_in_the_environment(commands: Path) -> None:
    with Mps("GPU-1") as mps:
        assert mps.env()["CUDA_VISIBLE_DEVICES"] == "GPU-1"


def test_missing_mps_program_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mps"

    def run(argv: Sequence[str], env: Mapping[str, str], words: str = "") -> str:
        return run_here(argv, env, words) if argv[0] == "mkdir" else run_here(["no-such-program-here"], env, words)

    with pytest.raises(Invalid, match="not installed"), Mps("0", run, str(folder)):
        pass


def test_run_here_reports_the_error_output_of_a_failed_program() -> None:
    with pytest.raises(Invalid, match="No such file"):
        run_here(["ls", "/no/such/folder"], {"LC_ALL": "C"})


def test_run_here_passes_input_and_environment() -> None:
    output = run_here(["sh", "-c", 'printf "%s " "$GREETING"; cat'], {"GREETING": json.dumps("hi there")}, "and bye")
    assert output == '"hi there" and bye'


def test_no_daemon_env_names_a_pipe_directory_that_does_not_exist() -> None:
    env = no_daemon_env("2")
    assert env["CUDA_VISIBLE_DEVICES"] == "2"
    assert not Path(env["CUDA_MPS_PIPE_DIRECTORY"]).exists()


class FakeProgram:
    """Replaces the control program. ``answers`` maps a command to its output."""

    def __init__(self, **answers: str) -> None:
        self.answers, self.commands = answers, []

    def __call__(self, argv: Sequence[str], env: Mapping[str, str], words: str = "") -> str:
        self.commands.append(words.strip() or argv[-1])
        return self.answers.get(words.split()[0], "") if words else ""


def test_faulty_server_is_detected(tmp_path: Path) -> None:
    well = FakeProgram(get_server_list="12\n13\n", get_server_status="ACTIVE\n")
    assert not MpsDaemon("GPU-1", tmp_path, well).is_faulty()
    assert well.commands == ["get_server_list", "get_server_status 12", "get_server_status 13"]
    assert MpsDaemon("GPU-1", tmp_path, FakeProgram(get_server_list="12\n", get_server_status="FAULT\n")).is_faulty()
    assert not MpsDaemon("GPU-1", tmp_path, FakeProgram()).is_faulty()  # no client yet


def test_only_listed_clients_are_terminated(tmp_path: Path) -> None:
    program = FakeProgram(get_server_list="12\n", get_client_list="5\n6\n")
    assert MpsDaemon("GPU-1", tmp_path, program).terminate([6, 7]) == [6]
    assert program.commands == ["get_server_list", "get_client_list 12", "terminate_client 12 6"]


def test_daemon_pid_is_read_from_its_folder(tmp_path: Path) -> None:
    daemon = MpsDaemon("GPU-1", tmp_path, FakeProgram())
    assert daemon.pid() is None
    daemon.pipes.mkdir()
    (daemon.pipes / f"{PROGRAM}.pid").write_text("17\n")
    assert daemon.pid() == 17
    assert daemon.env()["CUDA_MPS_PIPE_DIRECTORY"] == str(daemon.pipes)
