"""Calls to a cluster through kubectl."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass

from gpusquad.model.errors import Invalid

TIMEOUT_S = 60.0
RIGHTS = (("create", "pods"), ("get", "pods"), ("delete", "pods"), ("create", "pods/exec"))
"""Rights that measuring in a pod needs. See "In a pod" of the guide on interference."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl in one namespace."""

    namespace: str
    program: str = "kubectl"

    def argv(self, *arguments: str) -> list[str]:
        return [self.program, "-n", self.namespace, *arguments]

    def __call__(self, *arguments: str, words: str = "") -> str:
        """Its output. Raises Invalid if it failed or did not end in time."""
        code, output, errors = self._run(arguments, words)
        if code != 0:
            raise Invalid("pod", f"{self.program} {arguments[0]}: {(errors or output).strip()[-500:]}")
        return output

    def check_rights(self) -> None:
        """Check rights before a pod is created. A missing right would otherwise be noticed only after the image was
        pulled.
        """
        missing = [f"{verb} {resource}" for verb, resource in RIGHTS if not self._may(verb, resource)]
        if missing:
            needed = "; ".join(f"{verb} {resource}" for verb, resource in RIGHTS)
            problem = f"you may not {' or '.join(missing)} in {self.namespace!r}"
            raise Invalid("namespace", problem, f"measuring in a pod needs: {needed}")

    def _may(self, verb: str, resource: str) -> bool:
        kind, _, part = resource.partition("/")
        _, output, errors = self._run(("auth", "can-i", verb, kind, *([f"--subresource={part}"] if part else [])), "")
        answer = output.split(maxsplit=1)[0] if output.strip() else ""
        if answer not in ("yes", "no"):
            raise Invalid("engine", f"the cluster does not answer: {errors.strip()[-500:]}", "check that kubectl works")
        return answer == "yes"

    def _run(self, arguments: tuple[str, ...], words: str) -> tuple[int, str, str]:
        """Run to the end even when interrupted. Otherwise it would be unknown whether the pod exists."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            self.argv(*arguments), stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace",
            start_new_session=True,  # an interrupt at the terminal is handled by this process
        )  # fmt: skip
        try:
            output, errors = process.communicate(words, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Invalid("pod", f"{self.program} {arguments[0]} did not end within {TIMEOUT_S:g} s") from None
        except BaseException:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(TIMEOUT_S)
            raise
        return process.returncode, output, errors
