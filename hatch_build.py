"""Builds the dashboard into packages (hatchling build hook). Editable installs work without it.

A package without the dashboard would only be noticed in a browser, so the build fails where it can neither find nor
build it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MIN_NODE = 20
PAGE = Path("src/gpusquad/server/static/index.html")
SOURCES = ("web/src", "web/public", "web/index.html", "web/package-lock.json", "web/tsconfig.json",
           "web/vite.config.ts")  # fmt: skip
WITHOUT = "GPUSQUAD_WITHOUT_DASHBOARD"


class DashboardHook(BuildHookInterface):
    """Runs before an sdist or a wheel is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or os.environ.get(WITHOUT, "") not in ("", "0"):
            return
        root = Path(self.root)
        state = state_of(root)
        if not state:
            return
        problem = node_problem() if (root / "web" / "package.json").exists() else "its sources (web/) are missing"
        if problem:
            raise SystemExit(
                f"\ngpusquad: the dashboard {state}, and it cannot be built here: {problem}.\n"
                f"  Install Node.js {MIN_NODE} or later, or run `make web` elsewhere and copy {PAGE.parent} here.\n"
                f"  To build a package without the dashboard, set {WITHOUT}=1.\n"
            )
        self.app.display_info(f"gpusquad: the dashboard {state}; building it")
        build(root)


def state_of(root: Path) -> str:
    """What is wrong with the built dashboard. Empty: nothing."""
    page = root / PAGE
    if not page.exists():
        return "is not built"
    built_s = page.stat().st_mtime
    return "is older than its sources" if any(file.stat().st_mtime > built_s for file in _sources(root)) else ""


def node_problem() -> str:
    """Why the dashboard cannot be built with the tools of this machine. Empty: it can."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "Node.js is not installed"
    shown = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    major = shown.removeprefix("v").partition(".")[0]
    return "" if major.isdecimal() and int(major) >= MIN_NODE else f"Node.js is {shown or 'broken'}"


def build(root: Path) -> None:
    """As ``make web`` does it. The output folder is that of the package, whatever the developer's environment says."""
    environment = {name: value for name, value in os.environ.items() if name != "GPUSQUAD_WEB_FOLDER"}
    npm = ["npm", "--loglevel", "error"]
    for command in ([*npm, "ci", "--no-audit", "--no-fund"], [*npm, "run", "--silent", "build"]):
        if subprocess.run(command, cwd=root / "web", env=environment, check=False).returncode:
            raise SystemExit(
                f"\ngpusquad: the dashboard could not be built: `{' '.join(command)}` failed in web/ (see above).\n"
                f"  To build a package without the dashboard, set {WITHOUT}=1.\n"
            )
    if state := state_of(root):
        raise SystemExit(f"\ngpusquad: the dashboard {state} after its build. Check web/vite.config.ts.\n")


def _sources(root: Path) -> list[Path]:
    """Files that the page is built from. Tests are left out."""
    found = [file for name in SOURCES for file in _files(root / name)]
    return [file for file in found if ".test." not in file.name]


def _files(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path] if path.exists() else []
