"""Tests of the search for the control plane's programs. Nothing is compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.kube import build

KUBELET = next(program for program in build.PROGRAMS if program.name == "kubelet")


@pytest.fixture(autouse=True)
def search_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Folders in which programs are searched, all empty."""
    search_folders = {"named": tmp_path / "named", "cache": tmp_path / "cache", "path": tmp_path / "path"}
    monkeypatch.setenv("GPUSQUAD_KUBE_BIN", str(search_folders["named"]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(search_folders["cache"]))
    monkeypatch.setenv("PATH", f"{search_folders['path']}:/usr/bin:/bin")
    return search_folders


def write_program(path: Path, version: str = "v1.37.1") -> Path:
    """Write a program that only prints its version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho Kubernetes {version}\n")
    path.chmod(0o755)
    return path


def test_program_is_missing_when_no_folder_has_it():
    assert build.find(KUBELET) is None


def test_search_order_is_named_folder_then_cache_then_path(search_folders: dict[str, Path]):
    on_path = write_program(search_folders["path"] / "kubelet")
    assert build.find(KUBELET) == on_path
    cached = write_program(KUBELET.cached)
    assert build.find(KUBELET) == cached
    named = write_program(search_folders["named"] / "kubelet")
    assert build.find(KUBELET) == named


def test_old_program_is_ignored_in_the_path_but_not_in_the_named_folder(search_folders: dict[str, Path]):
    write_program(search_folders["path"] / "kubelet", "v1.9.0")
    assert build.find(KUBELET) is None
    named = write_program(search_folders["named"] / "kubelet", "v1.9.0")
    assert build.find(KUBELET) == named


def test_each_version_has_its_own_cache_folder():
    folders = {program.module: program.cached.parent.name for program in build.PROGRAMS}
    assert len(set(folders.values())) == len(folders)
    assert folders[build.KUBERNETES] == KUBELET.version


@pytest.mark.parametrize("program", build.PROGRAMS, ids=lambda program: program.name)
def test_every_program_is_pinned_as_a_tool_of_its_module(program: build.Program):
    assert f"{program.package}\n" in (program.folder / "go.mod").read_text()
    assert f"{program.module} {program.version} h1:" in (program.folder / "go.sum").read_text()
    assert int(program.version.removeprefix("v").split(".")[1]) >= build.OLDEST[program.module][1]


def test_check_fails_and_names_missing_programs():
    process = subprocess.run(
        [sys.executable, build.__file__, "--check", "kubelet"], capture_output=True, text=True, check=False
    )
    assert process.returncode == 1
    assert "missing" in process.stdout
    write_program(KUBELET.cached)
    process = subprocess.run(
        [sys.executable, build.__file__, "--check", "kubelet"], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0
    assert str(KUBELET.cached) in process.stdout
