"""A real Chromium before the real service. Whatever the page complains about fails the test."""

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
SHOTS = Path(os.environ.get("GPUSQUAD_SHOTS") or ROOT / "out" / "web")
LONGEST_TASK_MS = 2000.0
"""A page that stands still for longer hangs, however busy the machine is. What is asked of it on a machine that is not,
``bench run dashboard`` measures."""
NAMES = ("chromium", "chromium-browser", "google-chrome")
# Lit areas and motion differ from machine to machine; root may not use the sandbox.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb", "--disable-dev-shm-usage"]


def chromium() -> str | None:
    """The system's own: nothing is downloaded."""
    named = os.environ.get("GPUSQUAD_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


def missing() -> str:
    """What these tests lack here; empty: nothing."""
    if chromium() is None:
        return "there is no chromium: make chromium, or apt-get install chromium"
    if not BUILT.exists() or not AXE.exists():
        return "the dashboard is not built: make web"
    return ""


class Complaints:
    """Errors of the page: what it logs, what it throws, and what it asks for in vain."""

    def __init__(self, page: Page) -> None:
        self.found: list[str] = []
        self.expected: list[str] = []
        """Parts of complaints that a test means to cause."""
        page.on("console", self._logged)
        page.on("pageerror", lambda error: self.found.append(f"thrown: {error}"))

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.found.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def unexpected(self) -> list[str]:
        return [one for one in self.found if not any(part in one for part in self.expected)]


def violations(page: Page) -> list[str]:
    """What axe finds wrong for people who do not use eyes and a mouse."""
    page.evaluate(AXE.read_text("utf-8"))
    found: Any = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']} ({one['impact']}): {one['help']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in found["violations"]
    ]


def figure(name: str, value: float) -> float:
    """Something measured, for whoever measures (``bench/dashboard.py``). The value again."""
    print(f"\n{name}: {value:.1f}")
    if kept := os.environ.get("GPUSQUAD_FIGURES"):
        with Path(kept).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, "value": value}) + "\n")
    return value


def shoot(page: Page, name: str, *, whole: bool = False) -> Path:
    """A screenshot that is kept: ``out/web/NAME.png``."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    path = SHOTS / f"{name}.png"
    page.screenshot(path=path, full_page=whole, animations="disabled")
    return path
