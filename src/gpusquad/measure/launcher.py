"""Starts workers: as processes on this machine, or in a pod that holds the card. Both communicate through pipes."""

from __future__ import annotations

import json
import logging
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Protocol

from gpusquad.gpu.mps import run_here
from gpusquad.measure import pod_state
from gpusquad.measure.channel import Channel
from gpusquad.measure.kubectl import Kubectl
from gpusquad.model.errors import Invalid

_log = logging.getLogger(__name__)

CONTAINER = "main"
_POLL_INTERVAL_S = 1.0
_DELETED: pod_state.Pod = {"metadata": {"deletionTimestamp": "unknown"}}


class Launcher(Protocol):
    """Starts gpusquad modules where the card is."""

    start_delay_s: float
    """Time for a message to reach all workers. Windows start this long after they are announced."""

    def start(self, label: str, module: str, arguments: Sequence[str], env: Mapping[str, str]) -> Channel: ...
    def run(self, argv: Sequence[str], env: Mapping[str, str], words: str = "") -> str:
        """Run a program to its end. Returns its output."""
        ...

    def close(self) -> None: ...


class LocalLauncher:
    """Processes on this machine. Their output goes to files in the folder."""

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
        """Does nothing: the caller that started a worker closes it."""


@dataclass(frozen=True, slots=True)
class PodOptions:
    """The pod to measure in. Its image must have gpusquad, and PyTorch for workloads of the catalogue."""

    image: str
    namespace: str = "default"
    name: str = ""
    """Empty: a new name, so that two measurements in one namespace do not collide. Must not be in use."""
    node: str = ""
    """Only on this node. Empty: any node with a free card."""
    scheduler: str = "gpusquad"
    python: str = "python3"
    ready_timeout_s: float = 600.0
    kubectl: str = "kubectl"


class PodLauncher:
    """One pod that holds a whole card, allocated by gpusquad. All workers are processes in it, so they share that card.

    A process here is ``kubectl exec``: when it ends, the worker's input ends, and the worker with it. The pod is always
    deleted at the end. If it cannot be deleted, it ends by itself (``pod_holder``).
    """

    start_delay_s = 0.5

    def __init__(self, options: PodOptions, logs: Path | None = None) -> None:
        self._options = options if options.name else replace(options, name=f"gpusquad-measure-{secrets.token_hex(4)}")
        self._kubectl = Kubectl(options.namespace, options.kubectl)
        self._logs = logs if logs is not None else Path(tempfile.mkdtemp(prefix="gpusquad-measure-"))
        self._logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> PodLauncher:
        self._kubectl.check_rights()
        try:
            self._kubectl("create", "-f", "-", words=json.dumps(manifest(self._options)))
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, label: str, module: str, arguments: Sequence[str], env: Mapping[str, str]) -> Channel:
        return _spawn(label, self._inside(env, self._options.python, "-m", module, *arguments), {}, self._logs)

    def run(self, argv: Sequence[str], env: Mapping[str, str], words: str = "") -> str:
        return run_here(self._inside(env, *argv), {}, words)

    def close(self) -> None:
        """Delete the pod. A failure is logged. It discards neither the measurements nor the first error."""
        try:
            self._kubectl("delete", "pod", self._options.name, "--ignore-not-found", "--wait=false")
        except Invalid as error:
            _log.warning("%s/%s is still there: %s", self._options.namespace, self._options.name, error.problem)

    def _inside(self, env: Mapping[str, str], *argv: str) -> list[str]:
        return self._kubectl.argv("exec", "-i", self._options.name, "-c", CONTAINER, "--", *_with_env(env), *argv)

    def _wait(self) -> None:
        """Wait until the pod is ready. Raises Invalid if it cannot become ready, or is not ready in time."""
        options, until_s = self._options, time.monotonic() + self._options.ready_timeout_s
        where = f"{options.namespace}/{options.name}"
        while True:
            pod = self._seen()
            if pod_state.is_ready(pod):
                return
            if why := pod_state.failure_reason(pod):
                raise Invalid("pod", f"{where} cannot run: {why}", f"its image is {options.image}")
            if time.monotonic() > until_s:
                problem = f"{where} was not ready within {options.ready_timeout_s:g} s: {pod_state.pending_reason(pod)}"
                raise Invalid("pod", problem, "gpusquad nodes shows whether a card is free")
            time.sleep(_POLL_INTERVAL_S)

    def _seen(self) -> pod_state.Pod:
        text = self._kubectl("get", "pod", self._options.name, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else _DELETED


def manifest(options: PodOptions) -> dict[str, object]:
    """A pod that holds one card and waits for commands. It releases the card without being deleted."""
    spec: dict[str, object] = {
        "schedulerName": options.scheduler,
        "restartPolicy": "Never",
        "activeDeadlineSeconds": 24 * 3600,
        "terminationGracePeriodSeconds": 5,
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": CONTAINER,
                "image": options.image,
                "command": [options.python, "-m", "gpusquad.measure.pod_holder"],
                "terminationMessagePolicy": "FallbackToLogsOnError",
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
            start_new_session=True,  # an interrupt at the terminal is passed on by this process
        )
    return Channel(label, process, log)
