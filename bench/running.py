"""A real service to measure or test: its own process, its own home, simulated cards, real jobs."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpusquad.client.client import Client
from gpusquad.client.connect import find

PATIENCE_S = 120.0
"""Timeout for expected events on a machine that is busy with other tests."""
FINAL = ("succeeded", "failed", "cancelled", "timed_out")


_JOB = b"GPUSQUAD_JOB="


class RunningService:
    """Started, killed, started again."""

    def __init__(self, home: Path, *options: str, config: str = "", module: Sequence[str] = ("-m", "gpusquad")) -> None:
        self.home = home
        home.mkdir(exist_ok=True)
        if config:
            (home / "config.toml").write_text(config)
        self._options = options
        self.module = list(module)
        self.process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None

    def start(self, *extra: str, environment: dict[str, str] | None = None) -> RunningService:
        read_end, write_end = os.pipe()
        with (self.home / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.module, "serve", "--port", "0", "--ready-fd", str(write_end), *self._options,
                 *extra],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=[write_end],
                env=os.environ | {"GPUSQUAD_HOME": str(self.home)} | (environment or {}),
            )  # fmt: skip
        os.close(write_end)
        with os.fdopen(read_end, "rb") as ready:
            heard = select.select([ready], [], [], PATIENCE_S)[0] and ready.read(1)
        self._client = None
        self.is_up = bool(heard)
        return self

    def checked(self) -> RunningService:
        assert self.is_up, self.log()
        return self

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = find({"GPUSQUAD_HOME": str(self.home)})
        return self._client

    def log(self) -> str:
        return (self.home / "server.log").read_text("utf-8", "replace")[-5000:]

    def kill(self) -> None:
        """As the out-of-memory killer does it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def stop(self) -> int:
        """As an administrator does it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def end(self) -> None:
        """Whatever a test leaves behind goes."""
        if self.is_alive():
            self.kill()
        for folder in (self.home / "runs").glob("*/*"):
            _kill_run(folder)
        _kill_all_of({folder.name for folder in (self.home / "runs").glob("*")})

    def submit(self, **file: Any) -> str:
        cards = {} if "share" in file else {"gpus": 1}
        return self.client.jobs.submit(cards | {"workdir": str(self.home)} | file)["jobs"][0]["id"]

    def wait(self, job_id: str, *states: str, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """Wait until the job is in one of these states (default: a final state), using the service's events."""
        wanted = states or FINAL
        deadline = time.monotonic() + patience_s
        job = self.client.jobs.get(job_id)
        stream = iter(self.client.events.pulse(0))
        while job["state"] not in wanted and time.monotonic() < deadline:
            next(stream)
            job = self.client.jobs.get(job_id)
        assert job["state"] in wanted, f"{job['state']}, not {wanted}: {job['cause']}\n{self.log()}"
        return dict(job)

    def text(self, job_id: str, task: int = 0, attempt: int | None = None) -> str:
        """All that a task wrote."""
        chunk = self.client.logs.read(job_id, task=task, attempt=attempt, offset=0)
        return chunk.text

    def kinds(self, job_id: str) -> list[str]:
        return [event["kind"] for event in self.client.jobs.story(job_id)]


def _kill_run(folder: Path) -> None:
    try:
        status = json.loads((folder / "claim").read_text())
        os.kill(int(status["pid"]), signal.SIGKILL)
    except (OSError, ValueError, KeyError, TypeError):
        return


def _kill_all_of(jobs: set[str]) -> None:
    """Kill processes that the end of a supervisor does not reach: children of tasks, found by their environment."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            mine = any(one[len(_JOB) :].decode() in jobs for one in variables if one.startswith(_JOB))
            if mine:
                os.kill(int(folder.name), signal.SIGKILL)
        except (OSError, UnicodeDecodeError):
            continue
