"""A service in the background: started so that it outlives the terminal, found and stopped again."""

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
from gpusquad.model.errors import Invalid

LOG_FILE = "server.log"
SERVER_FILE = "server.json"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0


def running(home: Path) -> tuple[str, int] | None:
    """URL and process of the service of this home, if it lives."""
    try:
        found = json.loads((home / SERVER_FILE).read_text("utf-8"))
        os.kill(found["pid"], 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found["url"], found["pid"]


def start(home: Path, options: Sequence[str]) -> tuple[str, int]:
    """Start it and wait until it answers; its log says why if it does not."""
    make_home(home)
    read_end, write_end = os.pipe()
    with (home / LOG_FILE).open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "gpusquad", "serve", "--ready-fd", str(write_end), *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=[write_end],
            env=os.environ | {"GPUSQUAD_HOME": str(home)},
        )  # fmt: skip
    os.close(write_end)
    with os.fdopen(read_end, "rb") as ready:
        # Readable when it is ready, and also when it has died: then there is nothing to read.
        is_ready = bool(select.select([ready], [], [], START_TIMEOUT_S)[0]) and bool(ready.read(1))
    found = running(home)
    if not is_ready or found is None:
        child.kill()
        raise Invalid("serve", f"the service did not start: {_last_line(home)}", f"see {home / LOG_FILE}")
    return found


def stop(home: Path) -> bool:
    """Stop it and wait; jobs run on. False: none runs."""
    found = running(home)
    if found is None:
        return False
    descriptor = os.pidfd_open(found[1])
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if not select.select([descriptor], [], [], STOP_TIMEOUT_S)[0]:
            raise Invalid("down", f"process {found[1]} did not end in {STOP_TIMEOUT_S:.0f} s", "kill it; jobs run on")
    finally:
        os.close(descriptor)
    return True


def _last_line(home: Path) -> str:
    lines = (home / LOG_FILE).read_text("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"
