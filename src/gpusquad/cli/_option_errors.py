"""Names the option in an error of the service about a field that the option set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gpusquad.cli._job_file import SAME
from gpusquad.cli._job_options import JobOptions
from gpusquad.client.errors import ApiError

_OPTIONS = {
    **{name: name for name in SAME},
    "workdir": "workdir", "gpu_model": "gpu_model", "share.memory": "share_memory",
    "share.sm": "share_sm", "share.isolation": "share_isolation", "checkpoint.every": "checkpoint_every",
    "expect": "expect", "slo": "slo", "env": "env", "params": "params", "secrets": "secret", "after": "after",
    "notify": "notify",
}  # fmt: skip
"""By field of the job file: the field of ``JobOptions``."""
_OBJECTS = ("expect", "slo")
"""Fields that an option sets as a whole. The option is shown with the part that is wrong."""
_BY_NAME = ("env", "params")
"""Fields with entries from the file and from options."""
_LISTS = ("secrets", "after", "notify")
"""Lists whose last entries are from options."""


@contextmanager
def option_errors(options: JobOptions, file: Mapping[str, Any]) -> Iterator[None]:
    """Replace the field in an error of the service. ``file``: the job file as sent."""
    try:
        yield
    except ApiError as error:
        field = named_by_option(error.field, options, file)
        if field == error.field:
            raise
        raise ApiError(error.status, error.code, error.message, field, error.cure, error.retry_after_s) from None


def named_by_option(field: str, options: JobOptions, file: Mapping[str, Any]) -> str:
    """``--estimate`` for ``file.estimate`` if that option set it. Without a job file, ``file.`` is omitted."""
    path = field.removeprefix("file.")
    if path == field and not path.startswith("params."):
        return field
    for where, name in _OPTIONS.items():
        given, inner = getattr(options, name), path.removeprefix(where)
        if not path.startswith(where) or inner[:1] not in ("", ".", "[") or given is None:
            continue
        option = "--set" if name == "params" else f"--{name.replace('_', '-')}"
        key = inner.removeprefix(".")
        if where in _BY_NAME:
            if key in {text.partition("=")[0] for text in given}:
                return f"{option} {key}"
        elif where in _LISTS:
            if _is_of_option(inner, len(file[where]) - len(given)):
                return option
        else:
            return f"{option} {key}".rstrip() if where in _OBJECTS else option
    return field if options.file is not None else path


def _is_of_option(index: str, first: int) -> bool:
    """Whether ``[2].as`` is at this position of the list or behind it."""
    number = re.match(r"\[(\d+)\]", index)
    return number is not None and int(number[1]) >= first
