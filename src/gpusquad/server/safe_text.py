"""Makes untrusted text safe for one line of a log, a notice or a label."""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories that break lines, move the cursor, change the reading direction or cannot be encoded."""


def one_line(text: object, most: int = 200) -> str:
    """The text without line breaks, control and invisible characters, cut to ``most`` characters."""
    raw = str(text)
    seen = "".join(" " if unicodedata.category(sign) in _UNSEEN else sign for sign in raw[: most * 4])
    line = " ".join(seen.split())
    cut = len(line) > most or len(raw) > most * 4
    return line[: most - 1].rstrip() + "…" if cut else line
