"""Keeps secrets out of the log: by field name, by the form of a text, and by value for known ones."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

from gpusquad.server.notify.channels import mask

HIDDEN = "[hidden]"
_DEEPEST = 6
_MAX_TEXT_CHARS = 20_000

_SECRET_NAME = re.compile(r"token|secret|passw|authorization|cookie|credential|api_?key|private_?key|hash$", re.I)
_HARMLESS_NAME = re.compile(r"_(?:id|label|count|name|names|s|us)$", re.I)
_URL_NAME = re.compile(r"(?:^|_)(?:url|dsn)s?$", re.I)
_SCHEME = re.compile(r"\b(bearer(?=\s+\S{4})|basic(?=\s+\S{16}))\s+[\w.~+/=-]+", re.I)
_NAMED = re.compile(
    r"(\b[\w-]{0,40}(?:token|secret|password|passwd|authorization|api[_-]?key|hash)[\"']?\s*[:=]\s*)"
    r"(b?\"[^\"]*\"|b?'[^']*'|[^\s\"',;&)}\]]+)",
    re.I,
)
_OUR_TOKEN = re.compile(r"\bgsq_[A-Za-z0-9]{8,}")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,31}://[^\s\"'<>]+", re.I)
_known: set[str] = set()
_lock = threading.Lock()


def hide(secret: str) -> None:
    """Never show this value again. For the few secrets that the service itself holds."""
    if len(secret) >= 8:  # shorter ones would match harmless words
        with _lock:
            _known.add(secret)


def redacted(value: Any, name: str = "", depth: int = 0) -> Any:
    """The value, safe for a log."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if _is_secret(name):
        return HIDDEN
    if isinstance(value, str):
        return mask(value) if _URL_NAME.search(name) and "://" in value else redact_text(value)
    if depth < _DEEPEST and isinstance(value, Mapping):
        return {redact_text(str(key)): redacted(inner, str(key), depth + 1) for key, inner in value.items()}
    if depth < _DEEPEST and isinstance(value, (list, tuple, set, frozenset)):
        return [redacted(inner, name, depth + 1) for inner in value]
    # Anything else would be written by its repr, which may contain anything.
    return redact_text(value.decode(errors="replace") if isinstance(value, bytes) else _shown(value))


def redact_text(text: str) -> str:
    """The text without apparent secrets."""
    with _lock:
        known = sorted(_known, key=len, reverse=True)
    for secret in known:
        text = text.replace(secret, HIDDEN)
    if len(text) > _MAX_TEXT_CHARS:
        text = text[:_MAX_TEXT_CHARS] + " …"
    text = _OUR_TOKEN.sub(HIDDEN, text)
    text = _SCHEME.sub(rf"\1 {HIDDEN}", text)
    text = _URL.sub(lambda found: mask(found[0]), text)
    return _NAMED.sub(rf"\1{HIDDEN}", text)


def _is_secret(name: str) -> bool:
    name = name.replace("-", "_")
    return bool(_SECRET_NAME.search(name)) and not _HARMLESS_NAME.search(name)


def _shown(value: object) -> str:
    try:
        return str(value) if isinstance(value, BaseException) else repr(value)
    except Exception:
        return f"<{type(value).__name__}>"
