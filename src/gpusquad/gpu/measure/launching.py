"""Where workers run: as processes of this machine, or in a pod that holds the card. Both speak through pipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from gpusquad.gpu.measure.channel import Channel
from gpusquad.gpu.mps import run_here
from gpusquad.model.errors import Invalid


class Launcher(Protocol):
    """Starts our modules where the card is."""

    start_delay_s: float
    """How long a word takes to all workers: windows begin so much later than they are announced."""

    def start(self, label: str, module: str, arguments: Sequence[str], env: Mapping[str, str]) -> Channel: ...
    def run(self, argv: Sequence[str], env: Mapping[str, str], words: str = "") -> str:
        """A program to its end; what it printed."""
        ...

    def close(self) -> None: ...


class LocalLauncher:
    """Processes of this machine. What they print lands in files of the folder."""

    start_delay_s = 0.02

    def __init__(self, logs: Path | None = None, python: str = sys.executable) -> None:
        self._logs = logs if logs is not None else Path(tempfile.mkdtemp(prefix="gpusquad-measure-"))
        self._logs.mkdir(parents=True, exist_ok=True)
        self._python = python

    def start(self, label: str, module: str, arguments: Sequence[str], env: Mapping[str, str]) -> Channel:
        return _spawn(label, [self._python, "-m", module, *arguments], env, self._logs)

    def run(self, argv: Sequence[str], env: Mapping[str, str], words: str = "") -> str:
        return run_here(argv, env, words)

    def close(self) -> None:
        """Workers are closed by whoever asked for them."""


@dataclass(frozen=True, slots=True)
class PodOptions:
    """The pod to measure in. Its image must have gpusquad and PyTorch."""

    image: str
    namespace: str = "default"
    name: str = "gpusquad-measure"
    node: str = ""
    """Only on this node. Empty: wherever a card is free."""
    scheduler: str = "gpusquad"
    python: str = "python3"
    ready_within_s: int = 600
    kubectl: str = "kubectl"


class PodLauncher:
    """One pod that holds a whole card, given by gpusquad; all workers are processes in it, so they share that card.

    A process here is ``kubectl exec``: when it ends, the worker's input ends, and the worker with it.
    """

    start_delay_s = 0.5

    def __init__(self, options: PodOptions, logs: Path | None = None) -> None:
        self._options = options
        self._logs = logs if logs is not None else Path(tempfile.mkdtemp(prefix="gpusquad-measure-"))
        self._logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> PodLauncher:
        options = self._options
        run_here(self._kubectl("create", "-f", "-"), {}, json.dumps(manifest(options)))
        try:
            self._wait(options)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, label: str, module: str, arguments: Sequence[str], env: Mapping[str, str]) -> Channel:
        inside = [*_with_env(env), self._options.python, "-m", module, *arguments]
        return _spawn(label, self._kubectl("exec", "-i", self._options.name, "--", *inside), {}, self._logs)

    def run(self, argv: Sequence[str], env: Mapping[str, str], words: str = "") -> str:
        return run_here(self._kubectl("exec", "-i", self._options.name, "--", *_with_env(env), *argv), {}, words)

    def close(self) -> None:
        run_here(self._kubectl("delete", "pod", self._options.name, "--ignore-not-found", "--wait=false"), {})

    def _kubectl(self, *arguments: str) -> list[str]:
        return [self._options.kubectl, "-n", self._options.namespace, *arguments]

    def _wait(self, options: PodOptions) -> None:
        asked = self._kubectl("wait", "--for=condition=Ready", f"pod/{options.name}")
        try:
            subprocess.run(
                [*asked, f"--timeout={options.ready_within_s}s"],
                check=True, capture_output=True, timeout=options.ready_within_s + 30,
            )  # fmt: skip
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            problem = f"{options.namespace}/{options.name} was not ready within {options.ready_within_s} s"
            raise Invalid("pod", problem, f"gpusquad why {options.name}") from None


def manifest(options: PodOptions) -> dict[str, object]:
    """A pod that holds one card and waits to be told what to run. It ends by itself if nobody deletes it."""
    spec: dict[str, object] = {
        "schedulerName": options.scheduler,
        "restartPolicy": "Never",
        "activeDeadlineSeconds": 24 * 3600,
        "containers": [
            {
                "name": "main",
                "image": options.image,
                "command": ["sleep", "infinity"],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
            }
        ],
    }
    if options.node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": options.node}
    about = {"name": options.name, "namespace": options.namespace, "labels": {"app": "gpusquad-measure"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def _with_env(env: Mapping[str, str]) -> list[str]:
    return ["env", *(f"{name}={value}" for name, value in env.items())]


def _spawn(label: str, argv: Sequence[str], env: Mapping[str, str], logs: Path) -> Channel:
    log = logs / f"{label}.log"
    with log.open("ab") as errors:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **env},
            bufsize=0,
            start_new_session=True,  # an interrupt at the terminal is ours to hand on
        )
    return Channel(label, process, log)
