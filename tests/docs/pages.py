"""Takes pages of documentation apart: fenced blocks, commands with what they should print, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

REPOSITORY = Path(__file__).parents[2]
GUIDE = REPOSITORY / "docs" / "guide"
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
LEFT_OUT = "…"
"""Stands in shown output for lines that are not shown."""

_BLOCK = re.compile(r"^( *)```([a-z]+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FILE_NAME = re.compile(r"# ([\w.-]+\.(?:yaml|py|toml))\n")
_PROMPT, _MORE = "$ ", "> "


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: str
    language: str
    text: str
    line: int

    @property
    def file_name(self) -> str | None:
        """A block whose first line is a comment with a file's name is that file."""
        named = _FILE_NAME.match(self.text)
        return named[1] if named else None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """What a reader types, and what the page says comes of it."""

    line: int
    text: str
    shown: tuple[str, ...]


def blocks(page: Path, *languages: str) -> Iterator[Block]:
    """In the order of the page."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        if match[2] in languages:
            line = text.count("\n", 0, match.start()) + 1
            yield Block(page.relative_to(REPOSITORY).as_posix(), match[2], dedent(match[3]), line)


def all_blocks(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page, *languages)]


def commands(block: Block) -> Iterator[Command]:
    """Lines behind a prompt, each with those that follow up to the next prompt."""
    typed, shown, begun = "", [], 0
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.startswith(_PROMPT):
            if typed:
                yield Command(begun, typed, tuple(shown))
            typed, shown, begun = line.removeprefix(_PROMPT), [], number
        elif line.startswith(_MORE) and not shown:
            typed += "\n" + line.removeprefix(_MORE)
        else:
            shown.append(line)
    if typed:
        yield Command(begun, typed, tuple(shown))


def links(page: Path) -> list[str]:
    """Targets that are not on the web."""
    found = _LINK.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))
    return [target for target in found if "://" not in target]


def anchors(page: Path) -> set[str]:
    """What headings are called in links."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(text)}
