"""Where the programs of the control plane are looked for. Nothing is compiled here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.kube import build

KUBELET = next(program for program in build.PROGRAMS if program.name == "kubelet")


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The three places, all empty."""
    places = {"named": tmp_path / "named", "cache": tmp_path / "cache", "path": tmp_path / "path"}
    monkeypatch.setenv("GPUSQUAD_KUBE_BIN", str(places["named"]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(places["cache"]))
    monkeypatch.setenv("PATH", f"{places['path']}:/usr/bin:/bin")
    return places


def put(path: Path, version: str = "v1.37.1") -> Path:
    """A program that knows nothing but its version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho Kubernetes {version}\n")
    path.chmod(0o755)
    return path


def test_what_is_nowhere_is_missing():
    assert build.find(KUBELET) is None


def test_a_named_folder_goes_before_the_cache_and_that_before_the_path(places: dict[str, Path]):
    on_path = put(places["path"] / "kubelet")
    assert build.find(KUBELET) == on_path
    cached = put(KUBELET.cached)
    assert build.find(KUBELET) == cached
    named = put(places["named"] / "kubelet")
    assert build.find(KUBELET) == named


def test_what_is_in_the_path_must_be_new_enough_and_what_is_named_need_not(places: dict[str, Path]):
    put(places["path"] / "kubelet", "v1.9.0")
    assert build.find(KUBELET) is None
    named = put(places["named"] / "kubelet", "v1.9.0")
    assert build.find(KUBELET) == named


def test_each_version_has_a_folder_of_its_own():
    folders = {program.module: program.cached.parent.name for program in build.PROGRAMS}
    assert len(set(folders.values())) == len(folders)
    assert folders[build.KUBERNETES] == KUBELET.version


@pytest.mark.parametrize("program", build.PROGRAMS, ids=lambda program: program.name)
def test_every_program_is_pinned_as_a_tool_of_its_module(program: build.Program):
    assert f"{program.package}\n" in (program.folder / "go.mod").read_text()
    assert f"{program.module} {program.version} h1:" in (program.folder / "go.sum").read_text()
    assert int(program.version.removeprefix("v").split(".")[1]) >= build.OLDEST[program.module][1]


def test_check_names_what_is_missing_and_fails():
    said = subprocess.run(
        [sys.executable, build.__file__, "--check", "kubelet"], capture_output=True, text=True, check=False
    )
    assert said.returncode == 1
    assert "missing" in said.stdout
    put(KUBELET.cached)
    said = subprocess.run(
        [sys.executable, build.__file__, "--check", "kubelet"], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0
    assert str(KUBELET.cached) in said.stdout
