"""The card daemon as a process of the bench, and requests to it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.card.place import Lost, Place
from bench.card.tied import tied
from bench.data import ROOT
from gpusquad.gpu.daemon.__main__ import SOCKET, ask

DAEMON_WITHIN_S = 20.0


class CardDaemon:
    """One that is up, and the tenants that it knows. It is ended when ``parts`` is closed."""

    def __init__(self, folder: Path, place: Place, policy: str, logs: Path, parts: contextlib.ExitStack) -> None:
        self.socket = _started(folder, place, policy, logs, parts)
        self._pages: dict[str, str] = {}

    def ask(self, question: Mapping[str, object]) -> dict[str, Any]:
        answer = ask(self.socket, question)
        if not answer.get("ok"):
            raise Lost(f"the daemon: {answer.get('field')}: {answer.get('error')}")
        return answer

    def page(self, name: str, facts: Mapping[str, object]) -> str:
        """The path of a tenant's page. Who is not known yet is attached, with these facts."""
        if name not in self._pages:
            self._pages[name] = str(self.ask({"do": "attach", "tenant": {"id": name, **facts}})["tenant"])
        return self._pages[name]


def _started(folder: Path, place: Place, policy: str, logs: Path, parts: contextlib.ExitStack) -> Path:
    """Its socket, once it answers."""
    folder.mkdir(exist_ok=True)
    words = ["--card", place.card, "--folder", str(folder), "--policy", policy]
    words += ["--groups", str(place.groups), "--sms-per-group", str(place.sms_per_group), "--sms", str(place.sms)]
    words += ["--memory-bytes", str(place.memory_bytes)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    with (logs / "daemon.log").open("ab") as log:
        argv = [sys.executable, "-m", "gpusquad.gpu.daemon", *words]
        process = subprocess.Popen(tied(argv), env=env, stderr=log)
    parts.callback(_end, process)
    until_s = time.monotonic() + DAEMON_WITHIN_S
    while time.monotonic() < until_s and process.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            ask(folder / SOCKET, {"do": "status"})
            return folder / SOCKET
        time.sleep(0.05)
    raise Lost(f"the card's daemon did not come up: {_last_words(logs / 'daemon.log')}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][-300:] if lines else "it said nothing"
