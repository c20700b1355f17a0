"""Parser of documentation pages: fenced blocks, commands with their expected output, links."""

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
"""Stands for omitted lines of output."""

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
        """Name of the file that the block shows, from a comment in its first line."""
        named = _FILE_NAME.match(self.text)
        return named[1] if named else None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command and the output that the page shows."""

    line: int
    text: str
    shown: tuple[str, ...]


def blocks(page: Path, *languages: str) -> Iterator[Block]:
    """Fenced blocks of these languages, in the order of the page."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        if match[2] in languages:
            line = text.count("\n", 0, match.start()) + 1
            yield Block(page.relative_to(REPOSITORY).as_posix(), match[2], dedent(match[3]), line)


def all_blocks(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page, *languages)]


def commands(block: Block) -> Iterator[Command]:
    """Commands of a block: each prompt line with the lines up to the next prompt."""
    text, shown, start = "", [], 0
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.startswith(_PROMPT):
            if text:
                yield Command(start, text, tuple(shown))
            text, shown, start = line.removeprefix(_PROMPT), [], number
        elif line.startswith(_MORE) and not shown:
            text += "\n" + line.removeprefix(_MORE)
        else:
            shown.append(line)
    if text:
        yield Command(start, text, tuple(shown))


def links(page: Path) -> list[str]:
    """Link targets inside the repository."""
    found = _LINK.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))
    return [target for target in found if "://" not in target]


def anchors(page: Path) -> set[str]:
    """Anchors of the headings."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(text)}
