"""The order of the shim's locks, asserted by a debug build that runs a part of the other tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpusquad.gpu import build
from tests.gpu.shim.clients import Card
from tests.gpu.shim.players import Step, player
from tests.gpu.shim.test_capture import (  # noqa: F401  # collected here too, with the debug build
    test_capture_continues_when_a_joined_stream_is_destroyed,
    test_other_streams_continue_during_a_capture,
)
from tests.gpu.shim.test_gate import test_threads_share_the_last_credit  # noqa: F401
from tests.gpu.shim.test_streams import (  # noqa: F401
    test_legacy_stream_is_ordered_with_blocking_streams,
    test_no_launch_is_lost_when_threads_launch_and_move_at_once,
    test_random_programs_give_the_same_result_while_streams_move,
    test_stream_may_end_while_a_thread_waits_for_it,
)
from tests.gpu.shim.test_yield import (  # noqa: F401
    test_context_is_reset_while_its_work_is_paused,
    test_random_programs_give_the_same_result_while_paused_repeatedly,
)
from tests.gpu.standin.build import locked

DEBUG = ("-DGS_DEBUG",)


@pytest.fixture(scope="session")
def library(built: Path, c_builds: Path) -> Path:
    """The debug build, in place of the library that the other tests use."""
    folder = c_builds / "shim-debug"
    with locked(folder):
        if not (folder / "libgpusquad.so").exists():
            build.compile_library(build.SOURCES, folder / "libgpusquad.so", DEBUG)
    return folder / "libgpusquad.so"


@pytest.mark.parametrize("stream", ["blocking", "independent"])
def test_destroyed_stream_is_locked_while_its_last_work_moves_back(card: Card, stream: str) -> None:
    """The stream is still in the table, so the watcher or another thread may move it at the same time."""
    steps: list[Step] = [
        ["stream", stream, stream == "blocking"],
        ["grant", {"mask": 0x01, "neighbours": 0b11}],
        ["kernel", "legacy", 1],
        ["kernel", stream, 0, "add", 1000],
        ["destroy", stream],
        ["kernel", "legacy", 0],
    ]
    card.attach(0)
    client = player(card)
    assert client.play(steps)["cells"][:2] == [2, 1]
    assert client.end() == ""


def test_moved_streams_are_counted_once_when_destroyed_during_grant_changes(card: Card) -> None:
    """One thread launches under changing grants, which moves all streams back. Others destroy streams that moved."""
    changes: list[Step] = []
    for mask in (0x01, 0, 0x02, 0, 0x04, 0):
        changes += [["grant", {"mask": mask}], ["kernel", "legacy", 0], ["kernel", "legacy", 0]]
    ends = [[step for _ in range(10) for step in _short_life(f"s{thread}", thread + 1)] for thread in range(3)]
    card.attach(0)
    client = player(card)
    steps: list[Step] = [["together", [changes * 10, *ends]], ["grant", {}], ["sync"], ["kernel", "legacy", 7]]
    assert client.play(steps)["cells"] == [120, 10, 10, 10, 0, 0, 0, 1]
    assert client.end() == ""


def _short_life(name: str, cell: int) -> list[Step]:
    return [["stream", name, False], ["kernel", name, cell], ["destroy", name]]


_MISUSE = """
#include <pthread.h>
#include "locks.h"
#include <stdio.h>
#include <stdarg.h>
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t partitions = PTHREAD_RWLOCK_INITIALIZER;
void gs_log(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
}
int main(void) {
  %s
  return 0;
}
"""
_WRITES = "gs_write_lock(&partitions, GS_RANK_PARTITIONS);"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "gs_lock(&first, GS_RANK_TABLE); gs_lock(&second, GS_RANK_STREAM); gs_unlock(&first); gs_unlock(&second);",
            "",
        ),
        ("gs_lock(&first, GS_RANK_STREAM); gs_lock(&second, GS_RANK_TABLE);", "a lock of rank 5 is taken"),
        ("gs_lock(&first, GS_RANK_STREAM); gs_lock(&second, GS_RANK_STREAM);", "a lock of rank 6 is taken"),
        ("gs_lock(&first, GS_RANK_STREAM); if (!gs_try_lock(&second, GS_RANK_TABLE)) return 1;", ""),
        ("gs_unlock(&first);", "does not hold"),
        ("GS_ASSERT_HELD(&first);", "main requires a lock"),
        ("gs_lock(&first, GS_RANK_TABLE); gs_lock(&second, GS_RANK_LEGACY);", "a lock of rank 4 is taken"),
        (f"{_WRITES} gs_lock(&first, GS_RANK_TABLE); gs_lock(&second, GS_RANK_LEGACY);", ""),
    ],
)
def test_debug_build_aborts_when_a_lock_is_misused(tmp_path: Path, built: Path, body: str, message: str) -> None:
    (tmp_path / "misuse.c").write_text(_MISUSE % body)
    sources = [str(tmp_path / "misuse.c"), str(build.SOURCES / "locks.c")]
    flags = ["-std=gnu11", "-D_GNU_SOURCE", *DEBUG, "-I", str(build.SOURCES), "-pthread"]
    subprocess.run(["gcc", *flags, "-o", str(tmp_path / "misuse"), *sources], check=True)
    ran = subprocess.run([str(tmp_path / "misuse")], capture_output=True, text=True, check=False)
    assert (ran.returncode == 0) == (message == "")
    assert message in ran.stderr


def test_streams_and_timing_do_not_call_the_gate() -> None:
    """The gate calls them. They read the grant from gate/grant.h, and an undeclared call does not compile."""
    sources = [path for path in build.source_files(build.SOURCES) if path.parent.name in {"streams", "timing"}]
    assert sources
    assert [path.name for path in sources if "gate/gate.h" in path.read_text()] == []
