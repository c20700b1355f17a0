"""Names of a job's objects.

They are parts of host names, so they follow RFC 1123: at most 63 letters, digits and dashes. The pods of an Indexed Job
have its name with their index appended, which must fit too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_MAX_BASE = 30
_MAX_ROLE = 14
_MARK = 8
"""Characters of the mark in a name, enough to distinguish jobs of one name."""
_NOT_ALLOWED = re.compile(r"[^a-z0-9]+")


def dns_label(text: str, max_chars: int, default: str) -> str:
    """The text reduced to a DNS label that starts with a letter, as names of Services must."""
    plain = _NOT_ALLOWED.sub("-", text.lower()).strip("-")
    if plain and not plain[0].isalpha():
        plain = f"{default}-{plain}"
    return plain[:max_chars].rstrip("-") or default


def group_name(name: str, mark: str) -> str:
    """Name of the gang and of its Service and Secret."""
    return f"{dns_label(name, _MAX_BASE, 'job')}-{mark[:_MARK]}"


def job_names(group: str, roles: Sequence[str]) -> list[str]:
    """One Job per role; a single one has the name of the group."""
    if len(roles) == 1:
        return [group]
    parts = [dns_label(role, _MAX_ROLE, "role") for role in roles]
    if len({*parts}) == len(parts):
        return [f"{group}-{part}" for part in parts]
    return [f"{group}-{number}-{part[:10].rstrip('-')}" for number, part in enumerate(parts)]


def host_name(job: str, index: int, group: str) -> str:
    """Host name of a pod of the gang, under the gang's Service."""
    return f"{job}-{index}.{group}"
