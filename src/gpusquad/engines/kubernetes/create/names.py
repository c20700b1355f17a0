"""Names of the objects that a job is made of.

They are parts of host names, so they are held to what RFC 1123 allows: at most 63 letters, digits and dashes. The pods
of a Job that counts its pods are called like the Job with their number behind it, and that has to fit too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_MOST_BASE = 30
_MOST_ROLE = 14
_MARK = 8
"""Characters of the mark in a name: enough to tell jobs of one name apart."""
_NOT_ALLOWED = re.compile(r"[^a-z0-9]+")


def dns_label(text: str, most: int, otherwise: str) -> str:
    """The text as far as it can be part of a host name; begins with a letter, as the names of services must."""
    plain = _NOT_ALLOWED.sub("-", text.lower()).strip("-")
    if plain and not plain[0].isalpha():
        plain = f"{otherwise}-{plain}"
    return plain[:most].rstrip("-") or otherwise


def group_name(name: str, mark: str) -> str:
    """Of the gang, and of all that belongs to it."""
    return f"{dns_label(name, _MOST_BASE, 'job')}-{mark[:_MARK]}"


def job_names(group: str, roles: Sequence[str]) -> list[str]:
    """One Job for each role; the only one is called like the group."""
    if len(roles) == 1:
        return [group]
    parts = [dns_label(role, _MOST_ROLE, "role") for role in roles]
    if len({*parts}) == len(parts):
        return [f"{group}-{part}" for part in parts]
    return [f"{group}-{number}-{part[:10].rstrip('-')}" for number, part in enumerate(parts)]


def host_name(job: str, index: int, group: str) -> str:
    """By which pods of the gang find one of them: the host name of a numbered pod, under the gang's service."""
    return f"{job}-{index}.{group}"
