"""Starts, finds and stops the background service."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gpusquad.app.home import make_home
from gpusquad.engines.local import processes
from gpusquad.engines.local.processes import ProcessIdentity
from gpusquad.model.errors import Invalid

LOG_FILE = "server.log"
SERVER_FILE = "server.json"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0


def running(home: Path) -> tuple[str, int] | None:
    """URL and process ID of the running service of this home; None if there is none."""
    found = _read_server_file(home)
    pidfd = None if found is None else processes.hold(found[1])
    if found is None or pidfd is None:
        return None
    os.close(pidfd)
    return found[0], found[1].pid


def start(home: Path, options: Sequence[str]) -> tuple[str, int]:
    """Start the service in a new session and wait until it is ready. The error quotes its log."""
    make_home(home)
    read_end, write_end = os.pipe()
    log_fd = os.open(home / LOG_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(log_fd, "ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "gpusquad", "serve", "--ready-fd", str(write_end), *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=[write_end],
            env=os.environ | {"GPUSQUAD_HOME": str(home)},
        )  # fmt: skip
    os.close(write_end)
    with os.fdopen(read_end, "rb") as ready:
        # The pipe is readable when the service is ready, and also when it has died. Then it is empty.
        is_ready = bool(select.select([ready], [], [], START_TIMEOUT_S)[0]) and bool(ready.read(1))
    found = running(home)
    if not is_ready or found is None:
        child.kill()
        raise Invalid("serve", f"the service did not start: {_last_line(home)}", f"see {home / LOG_FILE}")
    return found


def stop(home: Path) -> bool:
    """Stop the service and wait for it. Running jobs continue. Returns False if no service is running."""
    found = _read_server_file(home)
    pidfd = None if found is None else processes.hold(found[1])
    if found is None or pidfd is None:
        return False
    try:
        processes.send(pidfd, signal.SIGTERM)
        if not select.select([pidfd], [], [], STOP_TIMEOUT_S)[0]:
            pid = found[1].pid
            raise Invalid(
                "down", f"process {pid} did not end within {STOP_TIMEOUT_S:.0f} s", "kill it; running jobs continue"
            )
    finally:
        os.close(pidfd)
    return True


def describe(url: str) -> str:
    """Content of the server file: URL and unique identity of this process."""
    identity = processes.identity(os.getpid())
    assert identity is not None
    return json.dumps(
        {"url": url, "pid": identity.pid, "start_ticks": identity.start_ticks, "boot_id": identity.boot_id}
    )


def _read_server_file(home: Path) -> tuple[str, ProcessIdentity] | None:
    try:
        found = json.loads((home / SERVER_FILE).read_text("utf-8"))
        return found["url"], ProcessIdentity(int(found["pid"]), int(found["start_ticks"]), str(found["boot_id"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _last_line(home: Path) -> str:
    lines = (home / LOG_FILE).read_text("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else "its log is empty"
