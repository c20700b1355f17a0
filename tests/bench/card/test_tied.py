"""Tests of programs that end with the process that started them."""

from __future__ import annotations

import subprocess
import sys

from bench.card.tied import tied

STARTER = """
import subprocess, sys
from bench.card.tied import tied
subprocess.Popen(tied(["/bin/sh", "-c", "echo up; exec sleep 60"]))
sys.stdin.read()
"""


def test_tied_program_ends_with_its_starter() -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert starter.stdout
    with starter.stdout as output:
        assert output.readline() == b"up\n"
        starter.kill()
        assert output.read() == b""  # end of file: both processes that held the pipe have ended
    starter.communicate()


def test_tied_program_keeps_its_arguments_and_exit_code() -> None:
    process = subprocess.run(tied(["/bin/sh", "-c", "echo $0; exit 3", "a word"]), capture_output=True, check=False)
    assert (process.returncode, process.stdout) == (3, b"a word\n")
