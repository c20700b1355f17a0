"""``make run`` in a fresh checkout ends with a link to a dashboard that shows its jobs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.checkout import copy_checkout
from tests.web.browser import save_screenshot, violations

TIMEOUT_S = 900
_LINK = re.compile(r"^  (http://127\.0\.0\.1:\d+/queue#token=\S+)$", re.MULTILINE)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home whose service is stopped after the test, whatever happened."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "config.toml").write_text("[server]\nport = 0\n\n[cluster]\nsimulate = 8\n")
    yield folder
    down = [sys.executable, "-m", "gpusquad", "down"]
    subprocess.run(down, env=os.environ | {"GPUSQUAD_HOME": str(folder)}, check=True, timeout=TIMEOUT_S)


# The home comes first, so that the page is closed before its service stops: it would report a lost connection.
def test_make_run_ends_with_a_link_to_its_jobs(home: Path, page: Any, tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "checkout")
    venv = Path(sys.prefix)
    # The suite itself is run by make, which a make below it would inherit settings from.
    inherited = ("GPUSQUAD_WEB_FOLDER", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
    environment = {name: value for name, value in os.environ.items() if name not in inherited}
    environment |= {"GPUSQUAD_HOME": str(home), "PYTHONPATH": str(checkout / "src")}
    # The checkout uses this environment, which is not installed again (-o): that would take minutes.
    done = subprocess.run(
        ["make", "run", f"VENV={venv}", "-o", f"{venv}/.installed"],
        cwd=checkout, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (checkout / "src/gpusquad/server/static/index.html").exists()
    found = _LINK.search(done.stdout)
    assert found, done.stdout[-2000:]
    assert done.stdout.rstrip().endswith(found[1])
    page.goto(found[1])
    expect(page.get_by_role("heading", name="Queue", level=1)).to_be_visible()
    ended = page.get_by_role("group", name="Recently ended")
    row = ended.get_by_role("row").filter(has=page.get_by_role("link", name="needs-all-eight", exact=True))
    expect(row).to_contain_text("succeeded")
    save_screenshot(page, "tour")
    assert violations(page) == []
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", name="needs-all-eight", level=1)).to_be_visible()
