#!/usr/bin/env python3
"""Installs TensorFlow and JAX for tests/e2e/test_frameworks.py, which runs them as jobs.

They get an environment of their own in the cache, as the programs of users have one: more than a gigabyte that nothing
else here imports. The extra ``frameworks`` of pyproject.toml defines the versions. Standard library only, so that it
runs before anything is installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

_PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def requirements() -> list[str]:
    project = tomllib.loads(_PYPROJECT.read_text(encoding="utf-8"))["project"]
    return project["optional-dependencies"]["frameworks"]


def folder() -> Path:
    """A folder for each set of versions and each Python."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpusquad" / "frameworks"
    text = "\n".join([sys.version, *requirements()])
    return cache / hashlib.sha256(text.encode()).hexdigest()[:12]


def python() -> Path | None:
    """The interpreter with the frameworks. None: they are not installed."""
    found = folder() / "bin" / "python"
    return found if (folder() / ".installed").exists() and found.exists() else None


def install() -> Path:
    """Without compiled modules, which would double the time: a test imports few of them."""
    target = folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if python() is None:
            shutil.rmtree(target, ignore_errors=True)  # of an interrupted call
            venv.create(target, with_pip=True)
            pip = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "--no-compile", *requirements()], check=True)
            (target / ".installed").touch()
    return target


if __name__ == "__main__":
    try:
        print(f"TensorFlow and JAX are in {install()}")
    except (subprocess.CalledProcessError, OSError) as error:
        sys.exit(f"TensorFlow and JAX could not be installed: {error}")
