"""Programs that end with whoever started them."""

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


def test_who_is_tied_ends_with_the_one_who_started_it() -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert starter.stdout
    with starter.stdout as said:
        assert said.readline() == b"up\n"
        starter.kill()
        assert said.read() == b""  # both are gone: each of them held the other end
    starter.communicate()


def test_the_program_has_its_own_words_and_says_how_it_ended() -> None:
    done = subprocess.run(tied(["/bin/sh", "-c", "echo $0; exit 3", "a word"]), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (3, b"a word\n")
