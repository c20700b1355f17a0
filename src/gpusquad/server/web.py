"""The dashboard: files built from ``web/`` and shipped in the package. Unknown paths get a 404."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

FOLDER = Path(os.environ.get("GPUSQUAD_WEB_FOLDER") or Path(__file__).parent / "static")
"""Another folder, for developers with several builds."""
INDEX = "index.html"
ASSETS = "assets/"
"""Names below it contain a hash of the content, so they never change."""
_FOREVER = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"
_WORTH_PACKING_BYTES = 1024
_TYPES = {
    ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
    ".json": "application/json", ".map": "application/json", ".png": "image/png", ".woff2": "font/woff2",
}  # fmt: skip
"""Our own table, because browsers refuse scripts of another type."""
_NOT_PACKED = ("image/png", "font/woff2")
_NOT_BUILT = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>gpusquad</title>
<h1>The dashboard is not built here</h1><p>The service runs; this page is missing. From a checkout:
<code>make web</code>, which needs Node.js, and reload. Packages of gpusquad bring the page with them.</p></html>"""


@dataclass(frozen=True)
class _File:
    """A file as it is sent: plain, and compressed if worth it."""

    read_ns: int
    media_type: str
    plain: bytes
    packed: bytes | None


class Dashboard:
    """ASGI application for paths without a route. ``otherwise`` answers 404."""

    def __init__(self, otherwise: ASGIApp, api_prefix: str, folder: Path = FOLDER) -> None:
        self._otherwise = otherwise
        self._api_prefix = api_prefix
        self._folder = folder
        self._files: dict[str, _File] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._answer(scope) if scope["type"] == "http" else None
        await (answer or self._otherwise)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD") or path.startswith(self._api_prefix):
            return None
        headers = Headers(scope=scope)
        file = self._file(path.removeprefix("/"))
        if file is not None:
            return _sent(file, headers, _FOREVER if path.startswith(f"/{ASSETS}") else _ASK_AGAIN)
        # A path of the dashboard, such as /queue: the page itself decides what to show. Programs that request an
        # unknown path get a 404.
        if "text/html" not in headers.get("accept", "") or "." in path.rpartition("/")[2]:
            return None
        index = self._file(INDEX)
        if index is None:
            return Response(_NOT_BUILT, status_code=503, media_type="text/html", headers={"Cache-Control": "no-store"})
        return _sent(index, headers, _ASK_AGAIN)

    def _file(self, name: str) -> _File | None:
        """Cached in memory; read again after a new build."""
        place = self._place(name)
        try:
            changed_ns = place.stat().st_mtime_ns if place is not None and place.is_file() else None
        except (OSError, ValueError):
            changed_ns = None
        if place is None or changed_ns is None:
            return None
        known = self._files.get(name)
        if known is None or known.read_ns != changed_ns:
            known = self._files[name] = _read(place, changed_ns)
        return known

    def _place(self, name: str) -> Path | None:
        """Never outside the folder, whatever the path is."""
        if not name or "\0" in name or "\\" in name:
            return None
        place = (self._folder / name).resolve()
        return place if place.is_relative_to(self._folder.resolve()) else None


def _read(place: Path, changed_ns: int) -> _File:
    data = place.read_bytes()
    media_type = _TYPES.get(place.suffix, "application/octet-stream")
    is_packed = media_type not in _NOT_PACKED and len(data) >= _WORTH_PACKING_BYTES
    return _File(changed_ns, media_type, data, gzip.compress(data, 9, mtime=0) if is_packed else None)


def _sent(file: _File, headers: Headers, caching: str) -> Response:
    response = {"Cache-Control": caching}
    if file.packed is None:
        return Response(file.plain, media_type=file.media_type, headers=response)
    response["Vary"] = "Accept-Encoding"
    if "gzip" not in headers.get("accept-encoding", ""):
        return Response(file.plain, media_type=file.media_type, headers=response)
    return Response(file.packed, media_type=file.media_type, headers=response | {"Content-Encoding": "gzip"})
