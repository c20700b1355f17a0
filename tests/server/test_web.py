"""Files of the dashboard: serving, caching and access outside of their folder."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gpusquad.server.app import PREFIX
from gpusquad.server.web import Dashboard
from tests.server.rig import Rig

ROOT = Path(__file__).parents[2]
SCRIPT = "assets/index-abc123.js"
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>here</title>" + "<!-- filler -->" * 100)
    (folder / SCRIPT).write_text("export const a = 1;\n" * 200)
    (tmp_path / "secret.txt").write_text("not for you")
    return folder


@pytest.fixture
def client(make_rig: Callable[..., Rig], built: Path) -> TestClient:
    rig = make_rig()
    dashboard: Any = rig.app.router.default
    rig.app.router.default = Dashboard(dashboard._otherwise, PREFIX, built)
    return rig.client


@pytest.mark.parametrize("path", ["/", "/queue", "/jobs/01abc", "/no/such/page"])
def test_every_page_address_returns_the_page(client: TestClient, path: str) -> None:
    answer = client.get(path, headers=HTML)
    assert answer.status_code == 200
    assert "<title>here</title>" in answer.text
    assert answer.headers["Cache-Control"] == "no-cache"
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy


def test_hashed_files_are_immutable_and_compressed(client: TestClient, built: Path) -> None:
    answer = client.get(f"/{SCRIPT}")
    assert "immutable" in answer.headers["Cache-Control"]
    assert answer.headers["Content-Type"].startswith("text/javascript")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.content == (built / SCRIPT).read_bytes()  # decompressed by the client
    plain = client.get(f"/{SCRIPT}", headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    assert len(gzip.compress(plain.content)) < len(plain.content)


def test_rebuilt_page_is_served_without_a_restart(client: TestClient, built: Path) -> None:
    client.get("/", headers=HTML)
    (built / "index.html").write_text("<title>newer</title>")
    assert "newer" in client.get("/", headers=HTML).text


@pytest.mark.parametrize(
    "path",
    ["/../secret.txt", "/%2e%2e/secret.txt", "/assets/%2e%2e/%2e%2e/secret.txt", "/..%5csecret.txt", "/assets/%00.js",
     "//etc/passwd", "/assets", "/assets/gone.js", "/favicon.ico", "/" + "a" * 5000 + ".js"],
)  # fmt: skip
def test_files_outside_of_the_folder_are_not_found(client: TestClient, path: str) -> None:
    answer = client.get(path, headers={"Accept": "*/*"})
    assert answer.status_code == 404, answer.text
    assert answer.json()["error"]["code"] == "not_found"


def test_page_is_not_found_for_programs_and_other_methods(client: TestClient) -> None:
    assert client.get("/queue").status_code == 404
    assert client.post("/queue", headers=HTML).status_code == 404
    assert client.head("/", headers=HTML).status_code == 200
    assert client.get(f"{PREFIX}/nothing", headers=HTML).status_code == 401


def test_missing_build_is_answered_with_the_build_command(make_rig: Callable[..., Rig], tmp_path: Path) -> None:
    rig = make_rig()
    dashboard: Any = rig.app.router.default
    rig.app.router.default = Dashboard(dashboard._otherwise, PREFIX, tmp_path / "absent")
    answer = rig.client.get("/", headers=HTML)
    assert answer.status_code == 503
    assert "make web" in answer.text


def test_lock_file_names_no_host_and_has_all_platforms() -> None:
    packages = json.loads((ROOT / "web" / "package-lock.json").read_text("utf-8"))["packages"]
    assert not [name for name, package in packages.items() if "resolved" in package]
    bindings = [name for name in packages if name.startswith("node_modules/@rolldown/binding-")]
    assert len(bindings) > 5, "made with a registry that lacks other platforms: npm ci will refuse it"


def test_types_of_the_dashboard_match_the_api() -> None:
    script = ROOT / "web" / "scripts" / "openapi.py"
    description = json.loads(
        subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True).stdout
    )
    head = (ROOT / "web" / "src" / "api" / "schema.d.ts").read_text("utf-8")[:400]
    assert f"mark: {description['mark']}\n" in head, "the API changed: run `npm run types` in web/"
