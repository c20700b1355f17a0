"""Logging: one stream for our lines, uvicorn's and those of other libraries; JSON, or colours on a terminal.

Every line passes ``redact`` last, so that nothing added on the way escapes it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import Processor

from gpusquad.server.redact import redacted
from gpusquad.server.safe_text import one_line

Style = Literal["auto", "json", "console"]
_NOISY = {"urllib3": logging.ERROR, "httpx": logging.WARNING, "sqlalchemy": logging.WARNING, "alembic": logging.WARNING}
"""Libraries that log requests with their secrets, or every statement."""
_SEVERAL_LINES = ("exception", "stack")
_MAX_LINE_CHARS = 2000


def configure(*, level: str = "info", style: Style = "auto", stream: TextIO | None = None) -> None:
    """Configure logging for the whole process; a second call replaces the first. Run uvicorn with
    ``log_config=None``."""
    out = sys.stderr if stream is None else stream
    as_json = style == "json" or (style == "auto" and not out.isatty())
    handler = logging.StreamHandler(out)
    handler.setFormatter(_formatter(as_json, out))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
    for name, least in _NOISY.items():
        logging.getLogger(name).setLevel(least)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            *_SHARED,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,  # loggers are created at import, before this call
    )


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """The last processor before formatting."""
    return redacted(dict(event))


def _formatter(as_json: bool, stream: TextIO) -> logging.Formatter:
    last: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        redact,
    ]
    if as_json:
        last.append(structlog.processors.JSONRenderer())
    else:
        plain = structlog.dev.plain_traceback
        last += [_one_line_each, structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_SHARED, _access], processors=last, pass_foreign_args=True
    )


def _access(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """uvicorn's request line as fields, without the query, which is private."""
    args = event.pop("positional_args", ())
    if event.get("logger") == "uvicorn.access" and isinstance(args, tuple) and len(args) == 5:
        client, method, path, _version, status = args
        path = str(path).partition("?")[0]
        event.update(event="request", client=client, method=method, path=path, status=status)
    return event


def _one_line_each(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """On a terminal, control characters in a name could move the cursor; in JSON they are escaped."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = _printable(value) if name in _SEVERAL_LINES else one_line(value, _MAX_LINE_CHARS)
    return event


def _printable(text: str) -> str:
    return "\n".join(one_line(line, _MAX_LINE_CHARS) if not line.isprintable() else line for line in text.splitlines())


_SHARED: list[Processor] = [
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    structlog.processors.StackInfoRenderer(),
]
