"""Start programs as real processes on a stand-in card, and exchange values with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.gpu.standin.build import build
from tests.gpu.standin.client import Line, read_log

TIMEOUT_S = 60.0
ROOT = Path(__file__).parents[3]
PRELUDE = """
import json, os, sys
from ctypes import *
from tests.gpu.standin.client import *

def send(value):
    print(json.dumps(value), flush=True)

def receive():
    return json.loads(sys.stdin.readline() or "null")
"""


@dataclass(frozen=True)
class Card:
    """A card in a file of `folder`. Settings are the variables of the stand-in without their prefix, in lower case."""

    folder: Path
    library: Path
    settings: dict[str, str | int | float] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def environment(self, **more: str) -> dict[str, str]:
        own = {f"STANDIN_{name.upper()}": str(value) for name, value in self.settings.items()}
        own |= {"STANDIN_CARD": str(self.folder / "card"), "STANDIN_LOG": str(self.log)}
        paths = {"LD_LIBRARY_PATH": str(self.library), "PYTHONPATH": str(ROOT)}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("STANDIN_", "CUDA_"))}
        return inherited | own | paths | more

    def start(self, code: str, **environment: str) -> Program:
        """Start a Python program with the names of the client, `send(value)` and `receive()`."""
        process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + code],
            env=self.environment(**environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        watchdog = threading.Timer(TIMEOUT_S, process.kill)
        watchdog.daemon = True
        watchdog.start()
        return Program(process, watchdog)

    def run(self, code: str, **environment: str) -> Any:
        """Run a program. Returns the last value that it sends."""
        with self.start(code, **environment) as program:
            return program.finish()

    def lines(self, kind: str = "kernel", pid: int | None = None) -> list[Line]:
        return [line for line in read_log(self.log) if line.kind == kind and pid in (None, line.pid)]


@dataclass(frozen=True)
class Program:
    """A running program. It ends with its `with` block, or after the timeout."""

    process: subprocess.Popen[str]
    watchdog: threading.Timer

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.watchdog.cancel()
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def receive(self) -> Any:
        """The next value that the program sends."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the program ended with {self.process.wait()}")
        return json.loads(line)

    def send(self, value: Any) -> None:
        """Send a value to its `receive()`."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(value) + "\n")
        self.process.stdin.flush()

    def resume(self) -> None:
        self.send(None)

    def finish(self) -> Any:
        """Wait for the end of the program. Returns the last value that `receive` has not read."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        lines = self.process.stdout.read().splitlines()
        if self.process.wait():
            raise RuntimeError(f"the program ended with {self.process.returncode}")
        return json.loads(lines[-1]) if lines else None


def new_card(folder: Path, builds: Path, **settings: str | int | float) -> Card:
    folder.mkdir(parents=True, exist_ok=True)
    return Card(folder, build(builds), settings)


MakeCard = Callable[..., Card]
"""Type of the fixture `make_card`: creates a card with the given settings."""
