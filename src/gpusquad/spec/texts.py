"""Validators of texts: length limits, and no characters that files, databases or processes cannot hold."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from gpusquad.model.errors import Invalid
from gpusquad.model.fields import MAX_TEXT, checked_text
from gpusquad.spec.paths import key_text, short

MAX_NAME_CHARS = 128
MAX_TEXT_CHARS = 30_000
"""In UTF-8 below 128 KiB, the limit of Linux for one argument."""
MAX_PATH_CHARS = 4096
MAX_ARGUMENTS = 4096
MAX_ENV = 1024
MAX_MODELS = 64

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
SECRET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
OUR_ENV_PREFIX = "GPUSQUAD_"
OUR_ENV = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"})

# Control characters, surrogates, line and paragraph separators, and characters that change the text direction, which
# can make one name look like another.
_REFUSED_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_DIRECTION_CHANGES = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def any_text(value: object, most: int = MAX_TEXT_CHARS) -> str:
    """A text that can be passed to a process. It may be empty or have several lines."""
    if not isinstance(value, str):
        raise Invalid("", f"must be a text, not {short(value)}", "put it in quotes")
    if len(value) > most:
        raise Invalid("", f"has {len(value)} characters", f"use at most {most}")
    if "\0" in value:
        raise Invalid("", "contains a NUL character", "remove it")
    if not value.isascii():
        _check_unicode(value)
    return value


def name(value: object) -> str:
    """One line of Unicode text."""
    text = any_text(value, MAX_NAME_CHARS)
    if text.isprintable():
        return text
    for char in text:
        if char in _DIRECTION_CHANGES or unicodedata.category(char) in _REFUSED_CATEGORIES:
            raise Invalid("", f"contains the control character U+{ord(char):04X}", "remove it")
    return text


def reference(value: object) -> str:
    """A name that must not be empty."""
    text = name(value)
    if not text.strip():
        raise Invalid("", "is empty")
    return text


def label(value: object) -> str:
    """A printable name, as the scheduler accepts it."""
    return _label(value, MAX_NAME_CHARS)


def long_label(value: object) -> str:
    return _label(value, MAX_TEXT)


def required_label(value: object) -> str:
    return _not_empty(label(value))


def card(value: object) -> str:
    return _not_empty(long_label(value))


def path(value: object) -> str:
    return any_text(value, MAX_PATH_CHARS)


def command(value: object) -> str | tuple[str, ...]:
    """A text for the shell, or a list of program and arguments."""
    if isinstance(value, str):
        text = any_text(value)
        if not text.strip():
            raise Invalid("", "is empty", "write for example [python3, train.py]")
        return text
    arguments = _texts(value, MAX_ARGUMENTS, any_text, "a text or a list of texts")
    if not arguments[0]:
        raise Invalid("[0]", "is empty", "start with the program to run")
    return arguments


def env(value: object) -> dict[str, str]:
    """Environment variables with their values."""
    if not isinstance(value, dict):
        raise Invalid("", f"must map names to values, not {short(value)}", "write for example {SEED: '1'}")
    if len(value) > MAX_ENV:
        raise Invalid("", f"has {len(value)} variables", f"use at most {MAX_ENV}")
    result = {}
    for key, item in value.items():
        where = key_text(key)
        result[_under(where, env_name, key)] = _under(where, any_text, item)
    return result


def env_name(value: object) -> str:
    if not isinstance(value, str) or not ENV_NAME.fullmatch(value):
        cure = "use letters, digits and _; start with a letter or _"
        raise Invalid("", f"{short(value)} is not a valid variable name", cure)
    if value.startswith(OUR_ENV_PREFIX) or value in OUR_ENV:
        raise Invalid("", f"{value} is set by gpusquad itself", "leave it out; request cards with gpus, share or card")
    return value


def secret_name(value: object) -> str:
    if not isinstance(value, str) or not SECRET_NAME.fullmatch(value):
        raise Invalid("", f"{short(value)} is not a valid secret name", "use letters, digits and _ . -")
    return value


def models(value: object) -> str | tuple[str, ...]:
    """One GPU model or several."""
    if isinstance(value, str):
        return _not_empty(label(value))
    return _texts(value, MAX_MODELS, required_label, "a GPU model or a list of them")


def _texts(value: object, most: int, check: Callable[[object], str], expected: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise Invalid("", f"must be {expected}, not {short(value)}")
    if not value:
        raise Invalid("", "is empty", "add at least one entry, or leave out the field")
    if len(value) > most:
        raise Invalid("", f"has {len(value)} entries", f"use at most {most}")
    return tuple(_under(f"[{index}]", check, item) for index, item in enumerate(value))


def _under(where: str, check: Callable[[object], str], value: object) -> str:
    try:
        return check(value)
    except Invalid as error:
        raise Invalid(where, error.problem, error.cure) from None


def _label(value: object, most: int) -> str:
    return checked_text(any_text(value, most), "", may_be_empty=True)


def _not_empty(text: str) -> str:
    if not text:
        raise Invalid("", "is empty", "leave out the field")
    return text


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid("", "contains a lone surrogate (half a character)", "remove it") from None
