"""Origin of figures: the calls in which they were measured, and which conditions alternated with each other.

Files of several calls are read as one, so a table alone does not show whether it is one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bench.card.rows import Row

Round = tuple[str, int]
"""A call and its repeat: calls that did not know of each other give theirs the same numbers."""


def sittings(rows: Sequence[Row], of_it: Sequence[Row]) -> str:
    """The calls that rows were measured in, with their days, and the library and policies of each."""
    known = {row["sitting"]: row for row in rows if row.get("kind") == "sitting"}
    named = list(dict.fromkeys(str(row.get("sitting")) for row in of_it))
    words = [f"{name} ({_day(known.get(name, {}))})" for name in named]
    return f"{len(named)} {'sitting' if len(named) == 1 else 'sittings'}: {', '.join(words)}"


def _day(sitting: Row) -> str:
    policies = f", policies {sitting['policies']}" if "policies" in sitting else ""
    return f"{str(sitting.get('at', 'no day'))[:10]}, library {sitting.get('library', 'unknown')}{policies}"


def in_turns(rows: Sequence[Row], conditions: Sequence[str]) -> str:
    """Which of the conditions took turns, where not all of them did. Empty: all did."""
    rounds: dict[Round, set[str]] = {}
    for row in rows:
        if row["condition"] in conditions:
            rounds.setdefault((row["sitting"], row["repeat"]), set()).add(row["condition"])
    kinds = _kinds({one: frozenset(found) for one, found in rounds.items()})
    if len(kinds) < 2:
        return ""
    return "; ".join(
        f"{', '.join(name for name in conditions if name in found)} in {_counted(count, 'other' if index else 'round')}"
        for index, (found, count) in enumerate(kinds.items())
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _kinds(rounds: Mapping[Round, frozenset[str]]) -> dict[frozenset[str], int]:
    """Group rounds by their conditions. An interrupted round belongs to the group it would have completed."""
    seen = Counter((sitting, found) for (sitting, _), found in rounds.items())
    kinds: dict[frozenset[str], int] = {}
    for (sitting, found), count in seen.items():
        wholes = [other for of, other in seen if of == sitting and found < other]
        kind = max(wholes, key=len) if count == 1 and wholes else found
        kinds[kind] = kinds.get(kind, 0) + count
    return kinds
