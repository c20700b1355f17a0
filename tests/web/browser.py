"""Chromium for the dashboard's tests, and checks of a page: console errors, accessibility, screenshots."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Page

from gpusquad.server.web import FOLDER

ROOT = Path(__file__).parents[2]
BUILT = FOLDER / "index.html"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
SCREENSHOTS = Path(os.environ.get("GPUSQUAD_SHOTS") or ROOT / "out" / "web")
LONGEST_TASK_MS = 2000.0
"""A longer task means that the page hangs, even on a busy machine. ``bench run dashboard`` measures on an idle one."""
PROGRAM_NAMES = ("chromium", "chromium-browser", "google-chrome")
# GPU rendering and colour profiles differ between machines, and root cannot use the sandbox.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb", "--disable-dev-shm-usage"]


def chromium() -> str | None:
    """Return the path of the installed Chromium. Nothing is downloaded."""
    configured = os.environ.get("GPUSQUAD_CHROMIUM")
    return configured or next((found for name in PROGRAM_NAMES if (found := shutil.which(name))), None)


def missing() -> str:
    """Return what these tests lack on this machine, or an empty string."""
    if chromium() is None:
        return "there is no chromium: make chromium, or apt-get install chromium"
    if not BUILT.exists() or not AXE.exists():
        return "the dashboard is not built: make web"
    return ""


class PageErrors:
    """Errors of the page: console errors and warnings, exceptions, failed requests."""

    def __init__(self, page: Page) -> None:
        self.found: list[str] = []
        self.expected: list[str] = []
        """Parts of errors that a test causes on purpose."""
        page.on("console", self._logged)
        page.on("pageerror", lambda error: self.found.append(f"thrown: {error}"))

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.found.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def unexpected(self) -> list[str]:
        return [error for error in self.found if not any(part in error for part in self.expected)]


def violations(page: Page) -> list[str]:
    """Return the accessibility violations that axe finds."""
    page.evaluate(AXE.read_text("utf-8"))
    found: Any = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']} ({rule['impact']}): {rule['help']}: {[node['html'][:160] for node in rule['nodes'][:3]]}"
        for rule in found["violations"]
    ]


def record_figure(name: str, value: float) -> float:
    """Print a measurement, append it to GPUSQUAD_FIGURES for ``bench/dashboard.py``, and return it."""
    print(f"\n{name}: {value:.1f}")
    if figures_file := os.environ.get("GPUSQUAD_FIGURES"):
        with Path(figures_file).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, "value": value}) + "\n")
    return value


def save_screenshot(page: Page, name: str, *, full_page: bool = False) -> Path:
    """Save a screenshot as ``out/web/NAME.png``."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path, full_page=full_page, animations="disabled")
    return path
