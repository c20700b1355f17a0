"""Builds a job file from the command line: a file, options that override it, and a command."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from gpusquad.cli._job_options import JobOptions
from gpusquad.model.errors import Invalid

MAX_FILE_BYTES = 1 << 20
MAX_NAME_CHARS = 64
SAME = ("name", "gpus", "count", "cpu", "memory", "gpu_memory", "card", "estimate", "limit", "priority", "tenant",
         "queue", "lane", "app", "retries", "image")  # fmt: skip
"""Options with the same name as the field in the job file."""
_PROGRAMS = re.compile(r"(?:.*/)?(?:python[\d.]*|bash|sh|env|torchrun|accelerate|deepspeed|mpirun|uv|nice)")
"""Launchers. A job is named after the program they run instead."""
_FILE = re.compile(r"[\w./+][\w./+@-]*")
"""Matches a file name, but no option, no variable assignment and no quoted script."""

Plain = dict[str, Any]


def job_file(options: JobOptions, words: list[str] | None) -> tuple[Plain, Plain]:
    """The job file and its parameters, as sent to the service."""
    file: Plain
    if words is not None and not words:
        raise Invalid("command", "is empty", "write it after --")
    if options.file is None and words is None:
        raise Invalid("command", "is missing", "name a job file, or write the command after --")
    params = _pairs(options.params, "set", _scalar)
    if options.file is not None:
        file = read_file(options.file)
    else:
        file, params = {"params": params} if params else {}, {}
    known = _known_names(file)
    file |= _option_fields(options, file, known)
    if words is not None:
        file["command"] = [_literal(word, known) for word in words]
    if not file.get("image"):  # an image has its own working directory
        file.setdefault("workdir", _literal(os.getcwd(), ()))
    if "workdir" in file:
        file["workdir"] = _absolute(file["workdir"])
    if not file.get("name"):
        file["name"] = _name_of(options.file, words)
    return file, params


def read_file(name: str) -> Plain:
    """Read a job file as plain data. The service validates it."""
    if name == "-":
        return _parsed(sys.stdin.read(MAX_FILE_BYTES + 1))
    path = Path(name)
    if path.suffix == ".json":
        return _json(path)
    try:
        return _yaml(path)
    except FileNotFoundError:
        raise Invalid("file", f"{name!r} does not exist", "name a job file, or write a command after --") from None
    except IsADirectoryError:
        raise Invalid("file", f"{name!r} is a directory", "name a file in it") from None


def _parsed(text: str) -> Plain:
    return _object(text, "stdin") if text.lstrip().startswith("{") else _yaml(text)


def _yaml(source: Path | str) -> Plain:
    try:
        from gpusquad.spec.yaml_file import load
    except ModuleNotFoundError as error:
        raise Invalid("file", f"YAML needs the package {error.name}", "install it, or write the file as JSON") from None
    return load(source)


def _json(path: Path) -> Plain:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise Invalid("file", f"{str(path)!r} does not exist") from None
    except UnicodeDecodeError:
        raise Invalid("file", f"{path.name} is not UTF-8 text", "save it as UTF-8") from None
    return _object(text, path.name)


def _object(text: str, name: str) -> Plain:
    if len(text) > MAX_FILE_BYTES:
        raise Invalid(
            "file", f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB", "move long texts into separate files"
        )
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid("file", f"{name} is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise Invalid("file", f"{name} must hold a JSON object", 'write for example {"gpus": 1}')
    return data


def _option_fields(options: JobOptions, file: Plain, known: Collection[str]) -> Plain:
    """The options as job-file fields. They override the fields of the file."""
    asked: Plain = {name: value for name in SAME if (value := getattr(options, name)) is not None}
    if options.gpus is not None and options.gpus != "auto":
        asked["gpus"] = int(options.gpus)
    if options.workdir is not None:
        asked["workdir"] = _literal(os.path.abspath(os.path.expanduser(options.workdir)), ())
    share = {"memory": options.share_memory, "sm": options.share_sm, "isolation": options.share_isolation}
    if any(value is not None for value in share.values()):
        asked["share"] = _joined(file.get("share"), {name: value for name, value in share.items() if value is not None})
    if options.gpu_model:
        asked["gpu_model"] = options.gpu_model[0] if len(options.gpu_model) == 1 else options.gpu_model
    checkpoint = {"every": options.checkpoint_every, "preemptible": options.preemptible}
    if any(value is not None for value in checkpoint.values()):
        given = {name: value for name, value in checkpoint.items() if value is not None}
        asked["checkpoint"] = _joined(file.get("checkpoint"), given)
    if options.expect is not None:
        saved = _json(Path(options.expect))
        asked["expect"] = saved.get("expect", saved)
    if options.slo:
        from gpusquad.model.slo_text import goals_in

        asked["slo"] = goals_in(",".join(options.slo))
    if options.env:
        values = {name: _literal(value, known) for name, value in _pairs(options.env, "env", str, _from_here).items()}
        asked["env"] = _joined(file.get("env"), values)
    if options.secret:
        asked["secrets"] = [*_list(file.get("secrets")), *map(_secret, options.secret)]
    if options.after:
        asked["after"] = [*_list(file.get("after")), *map(_after, options.after)]
    if options.notify:
        asked["notify"] = [*_list(file.get("notify")), *options.notify]
    return asked


def _joined(before: object, given: Plain) -> Plain:
    return (before if isinstance(before, dict) else {}) | given


def _list(before: object) -> list:
    return before if isinstance(before, list) else []


def _pairs(texts: Iterable[str] | None, option: str, read: Any, missing: Any = None) -> Plain:
    found: Plain = {}
    for text in texts or ():
        name, is_pair, value = text.partition("=")
        if not name or not (is_pair or missing):
            raise Invalid(option, f"cannot read {text!r}", f"write --{option} NAME=VALUE")
        found[name] = read(value) if is_pair else missing(name)
    return found


def _from_here(name: str) -> str:
    if name not in os.environ:
        raise Invalid("env", f"{name} is not set in this shell", f"write --env {name}=VALUE")
    return os.environ[name]


def _scalar(text: str) -> str | int | float | bool:
    """Parse as in a job file: ``0.1`` is a number, ``true`` a boolean, anything else text."""
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?(0|[1-9]\d{0,15})", text):
        return int(text)
    if re.fullmatch(r"-?(0|[1-9]\d*)?(\.\d+)?([eE][+-]?\d+)?", text) and any(sign.isdigit() for sign in text):
        return float(text)
    return text


def _secret(text: str) -> str | Plain:
    name, is_pair, variable = text.partition("=")
    return {"name": name, "as": variable} if is_pair else name


def _after(text: str) -> str | Plain:
    job, _, on = text.rpartition(":")
    return {"job": job, "on": on} if on in ("success", "failure", "any") and job else text


def _known_names(file: Plain) -> set[str]:
    """Names that ``${…}`` may refer to in this file."""
    names = set(_joined(file.get("params"), {}))
    sweep = file.get("sweep")
    rows = sweep if isinstance(sweep, list) else [sweep, _joined(sweep, {}).get("zip")]
    names.update(name for row in rows if isinstance(row, dict) for name in row)
    return names | ({"sweep.index"} if sweep else set())


def _literal(text: str, known: Collection[str]) -> str:
    """Escape ``${HOME}`` in text from the shell, unless a parameter has that name."""
    ours = "|".join(re.escape(name) for name in known)
    keep = rf"(?!\s*(?:{ours})\s*\}})" if ours else ""
    return re.sub(rf"\$\{{{keep}", "$${", text)


def _absolute(workdir: object) -> object:
    """Resolve against the current directory, unless the path starts with a parameter."""
    if not isinstance(workdir, str) or workdir.startswith(("/", "${")):
        return workdir
    return os.path.join(_literal(os.getcwd(), ()), os.path.expanduser(workdir) if workdir.startswith("~") else workdir)


def _name_of(file: str | None, words: list[str] | None) -> str:
    """A job name from the file name, otherwise from the command."""
    if file is not None and file != "-":
        return Path(file).stem
    for word in words or ():
        if _FILE.fullmatch(word) and not _PROGRAMS.fullmatch(word):
            return Path(word).stem[:MAX_NAME_CHARS] or "job"
    return _literal(Path(words[0]).name[:MAX_NAME_CHARS], ()) if words else "job"
