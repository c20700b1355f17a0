"""Packages contain the dashboard, or their build fails and says what to do. Editable installs need no dashboard."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from hatch_build import PAGE, WITHOUT, state_of
from tests.checkout import copy_checkout

PAGE_NAME = "gpusquad/server/static/index.html"
NEWER_S = 3600


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return copy_checkout(tmp_path / "checkout")


@pytest.fixture
def built(checkout: Path) -> Path:
    """A checkout with a page that is newer than its sources."""
    page = checkout / PAGE
    page.parent.mkdir(parents=True)
    page.write_text("<title>built</title>")
    return checkout


def package(folder: Path, kind: str, path: str = "/nonexistent", **environment: str) -> subprocess.CompletedProcess:
    """Build in ``folder``, on a machine without Node.js unless ``path`` has it."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind]
    inherited = {name: value for name, value in os.environ.items() if name != WITHOUT}
    return subprocess.run(
        command, cwd=folder, env=inherited | {"PATH": path} | environment, capture_output=True, text=True, check=False
    )


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_build_fails_and_names_the_cure_if_the_dashboard_cannot_be_built(checkout: Path) -> None:
    done = package(checkout, "wheel")
    assert done.returncode != 0
    assert "dashboard is not built" in done.stderr
    assert "Node.js is not installed" in done.stderr
    assert "make web" in done.stderr
    assert WITHOUT in done.stderr
    assert not list(checkout.glob("dist/*.whl"))


def test_wheel_build_fails_if_node_is_too_old(checkout: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("node", "npm"):
        (programs / name).write_text("#!/bin/sh\necho v18.19.0\n")
        (programs / name).chmod(0o755)
    done = package(checkout, "wheel", f"{programs}:/usr/bin:/bin")
    assert done.returncode != 0
    assert "Node.js is v18.19.0" in done.stderr


def test_wheel_without_the_dashboard_is_built_on_request_only(checkout: Path) -> None:
    done = package(checkout, "wheel", **{WITHOUT: "1"})
    assert done.returncode == 0, done.stderr
    [wheel] = checkout.glob("dist/*.whl")
    assert PAGE_NAME not in names_in(wheel)


def test_editable_wheel_is_built_without_the_dashboard(checkout: Path) -> None:
    build = "from hatchling.build import build_editable; build_editable('dist')"
    environment = {name: value for name, value in os.environ.items() if name != WITHOUT} | {"PATH": "/nonexistent"}
    subprocess.run([sys.executable, "-c", build], cwd=checkout, env=environment, check=True)
    assert len(list(checkout.glob("dist/*.whl"))) == 1


def test_sdist_and_the_wheel_built_from_it_have_the_dashboard(built: Path, tmp_path: Path) -> None:
    done = package(built, "sdist")
    assert done.returncode == 0, done.stderr
    [sdist] = built.glob("dist/*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    [source] = (tmp_path / "source").iterdir()
    done = package(source, "wheel")
    assert done.returncode == 0, done.stderr
    [wheel] = source.glob("dist/*.whl")
    assert PAGE_NAME in names_in(wheel)


def test_page_older_than_its_sources_is_not_packaged(built: Path) -> None:
    assert state_of(built) == ""
    late_s = (built / PAGE).stat().st_mtime + NEWER_S
    os.utime(built / "web" / "src" / "main.tsx", (late_s, late_s))
    assert state_of(built) == "is older than its sources"
    done = package(built, "wheel")
    assert done.returncode != 0
    assert "older than its sources" in done.stderr


def test_wheel_is_built_from_a_folder_without_the_sources_of_the_page(built: Path) -> None:
    """As in the image, which gets the built page only."""
    shutil.rmtree(built / "web")
    done = package(built, "wheel")
    assert done.returncode == 0, done.stderr
    [wheel] = built.glob("dist/*.whl")
    assert PAGE_NAME in names_in(wheel)
