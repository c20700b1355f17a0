"""Texts of a job file: bounded, without what files, databases and processes cannot hold."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from gpusquad.model.errors import Invalid
from gpusquad.model.fields import MOST_TEXT, checked_text
from gpusquad.spec.paths import key_text, short

MOST_NAME_CHARS = 128
MOST_TEXT_CHARS = 30_000
"""In UTF-8 it stays below the 128 KiB that Linux takes as one argument."""
MOST_PATH_CHARS = 4096
MOST_ARGUMENTS = 4096
MOST_ENV = 1024
MOST_MODELS = 64

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
SECRET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
OUR_ENV_PREFIX = "GPUSQUAD_"
OUR_ENV = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"})

# Control characters, halves of characters, line and paragraph ends; and those that turn the direction of the text
# around, with which one name can be made to look like another.
_REFUSED_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def any_text(value: object, most: int = MOST_TEXT_CHARS) -> str:
    """A text that a process can be given. It may be empty and have many lines."""
    if not isinstance(value, str):
        raise Invalid("", f"expected text, got {short(value)}", "put it in quotes")
    if len(value) > most:
        raise Invalid("", f"has {len(value)} characters", f"keep it to {most}")
    if "\0" in value:
        raise Invalid("", "holds a NUL character", "take it out")
    if not value.isascii():
        _check_unicode(value)
    return value


def name(value: object) -> str:
    """Any Unicode on one line."""
    text = any_text(value, MOST_NAME_CHARS)
    if text.isprintable():
        return text
    for char in text:
        if char in _TURNS or unicodedata.category(char) in _REFUSED_CATEGORIES:
            raise Invalid("", f"holds the control character U+{ord(char):04X}", "take it out")
    return text


def reference(value: object) -> str:
    """The name of something that must be there."""
    text = name(value)
    if not text.strip():
        raise Invalid("", "is empty")
    return text


def label(value: object) -> str:
    """A printable name, as the scheduler takes it."""
    return _label(value, MOST_NAME_CHARS)


def long_label(value: object) -> str:
    return _label(value, MOST_TEXT)


def required_label(value: object) -> str:
    return _not_empty(label(value))


def card(value: object) -> str:
    return _not_empty(long_label(value))


def path(value: object) -> str:
    return any_text(value, MOST_PATH_CHARS)


def command(value: object) -> str | tuple[str, ...]:
    """One text for the shell, or a program with its arguments."""
    if isinstance(value, str):
        text = any_text(value)
        if not text.strip():
            raise Invalid("", "is empty", "write for example [python3, train.py]")
        return text
    arguments = _texts(value, MOST_ARGUMENTS, any_text, "a command as text or as a list of texts")
    if not arguments[0]:
        raise Invalid("[0]", "is empty", "begin with the program to run")
    return arguments


def env(value: object) -> dict[str, str]:
    """Variables and their values."""
    if not isinstance(value, dict):
        raise Invalid("", f"expected names with values, got {short(value)}", "write for example {SEED: '1'}")
    if len(value) > MOST_ENV:
        raise Invalid("", f"has {len(value)} variables", f"keep it to {MOST_ENV}")
    result = {}
    for key, item in value.items():
        where = key_text(key)
        result[_under(where, env_name, key)] = _under(where, any_text, item)
    return result


def env_name(value: object) -> str:
    if not isinstance(value, str) or not ENV_NAME.fullmatch(value):
        cure = "use letters, digits and _; begin with a letter or _"
        raise Invalid("", f"{short(value)} is not the name of a variable", cure)
    if value.startswith(OUR_ENV_PREFIX) or value in OUR_ENV:
        raise Invalid("", f"{value} is set by gpusquad itself", "leave it out; ask for cards with gpus, share or card")
    return value


def secret_name(value: object) -> str:
    if not isinstance(value, str) or not SECRET_NAME.fullmatch(value):
        raise Invalid("", f"{short(value)} is not the name of a secret", "use letters, digits and _ . -")
    return value


def models(value: object) -> str | tuple[str, ...]:
    """One model of cards or several."""
    if isinstance(value, str):
        return _not_empty(label(value))
    return _texts(value, MOST_MODELS, required_label, "the model of a card, or a list of them")


def _texts(value: object, most: int, check: Callable[[object], str], expected: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise Invalid("", f"expected {expected}, got {short(value)}")
    if not value:
        raise Invalid("", "is empty", "give at least one, or leave the field out")
    if len(value) > most:
        raise Invalid("", f"has {len(value)} entries", f"keep it to {most}")
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
        raise Invalid("", "is empty", "leave it out if there is none")
    return text


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid("", "holds half a character (a lone surrogate)", "take it out") from None
