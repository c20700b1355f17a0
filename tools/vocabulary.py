#!/usr/bin/env python3
"""Counts what makes the code hard to read for a newcomer, and lists where it is.

    python3 tools/vocabulary.py            # the counts
    python3 tools/vocabulary.py --list     # each finding with its place
    python3 tools/vocabulary.py --json     # the counts as JSON
    python3 tools/vocabulary.py --root DIR # another checkout, for a comparison

Standard library only, so that it also runs on checkouts from before it existed.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

SMALL_LINES = 60
WORDS = ("foretold", "whoever", "nobody", "mates", "lookout", "stranger", "so many", "so long")
# A name that is one past participle or gerund says what happened, not what the thing is.
IRREGULAR = frozenset({
    "Begun", "Broken", "Built", "Chosen", "Done", "Drawn", "Driven", "Fallen", "Foretold", "Forgotten", "Found",
    "Given", "Gone", "Grown", "Heard", "Held", "Hidden", "Kept", "Known", "Laid", "Left", "Lent", "Lost", "Made", "Met",
    "Paid", "Refound", "Said", "Seen", "Sent", "Shown", "Shut", "Spent", "Stood", "Stuck", "Taken", "Taught", "Told",
    "Understood", "Withdrawn", "Written",
})  # fmt: skip
# Nouns and names that end like a participle: the divide policy "shared" keeps the name that users type.
NOT_PARTICIPLES = frozenset({"Feed", "Seed", "Speed", "Need", "Setting", "Timing", "String", "Ring", "Shared"})
TEXT_SUFFIXES = {".py", ".c", ".h", ".md", ".toml", ".html", ".ts", ".tsx"}
TEXT_ROOTS = ("src", "docs", "README.md", "CONTRIBUTING.md")


@dataclass
class Findings:
    """What was counted, each with its places."""

    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    participles: list[str] = field(default_factory=list)
    modules: int = 0
    single_use_modules: list[str] = field(default_factory=list)
    source_lines: int = 0
    words: list[str] = field(default_factory=list)

    @property
    def repeated_classes(self) -> dict[str, list[str]]:
        return {name: places for name, places in sorted(self.classes.items()) if len(places) > 1}

    def counts(self) -> dict[str, int]:
        return {
            "classes": sum(map(len, self.classes.values())),
            "class names used more than once": len(self.repeated_classes),
            "class names that are bare participles": len(self.participles),
            "modules": self.modules,
            f"modules under {SMALL_LINES} lines with one importer": len(self.single_use_modules),
            "lines of Python in src": self.source_lines,
            "words to avoid in src, docs and CLI texts": len(self.words),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], help="checkout to read")
    parser.add_argument("--list", action="store_true", help="list each finding with its place")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    options = parser.parse_args()
    findings = examine(options.root)
    if options.json:
        print(json.dumps(findings.counts(), indent=2))
        return
    for name, count in findings.counts().items():
        print(f"{count:7}  {name}")
    if options.list:
        _print_places(findings)


def examine(root: Path) -> Findings:
    findings = Findings()
    package = root / "src" / "gpusquad"
    files = sorted(package.rglob("*.py"))
    importers: dict[str, set[Path]] = defaultdict(set)
    for path in files:
        text = path.read_text(encoding="utf-8")
        findings.modules += 1
        findings.source_lines += text.count("\n")
        tree = ast.parse(text)
        _note_classes(findings, tree, str(path.relative_to(root)))
        for module in _imported(tree):
            importers[module].add(path)
    for path in files:
        _note_single_use(findings, root, path, importers)
    for path in _texts(root):
        _note_words(findings, root, path)
    return findings


def is_participle(name: str) -> bool:
    """Whether a class name is one word that is a past participle or a gerund."""
    bare = name.lstrip("_")
    if re.fullmatch(r"[A-Z][a-z]+", bare) is None or bare in NOT_PARTICIPLES:
        return False
    return bare in IRREGULAR or bare.endswith(("ed", "ing"))


def _note_classes(findings: Findings, tree: ast.Module, place: str) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            where = f"{place}:{node.lineno}"
            if not node.name.startswith("_"):
                findings.classes[node.name].append(where)
            if is_participle(node.name):
                findings.participles.append(f"{where} {node.name}")


def _imported(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def _note_single_use(findings: Findings, root: Path, path: Path, importers: dict[str, set[Path]]) -> None:
    name = ".".join(path.relative_to(root / "src").with_suffix("").parts)
    lines = path.read_text(encoding="utf-8").count("\n")
    if path.stem not in {"__init__", "__main__"} and lines < SMALL_LINES and len(importers[name]) == 1:
        findings.single_use_modules.append(f"{path.relative_to(root)} ({lines} lines)")


def _texts(root: Path) -> list[Path]:
    found: list[Path] = []
    for name in TEXT_ROOTS:
        path = root / name
        found += [path] if path.is_file() else path.rglob("*")
    return sorted(p for p in found if p.suffix in TEXT_SUFFIXES and "static" not in p.parts and p.is_file())


def _note_words(findings: Findings, root: Path, path: Path) -> None:
    pattern = re.compile("|".join(rf"(?<![a-z]){word}" for word in WORDS), re.IGNORECASE)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        findings.words += [f"{path.relative_to(root)}:{number} {found[0]}" for found in pattern.finditer(line)]


def _print_places(findings: Findings) -> None:
    for name, places in findings.repeated_classes.items():
        print(f"repeated class {name}: {', '.join(places)}")
    for heading, lines in (
        ("participle", findings.participles), ("small module with one importer", findings.single_use_modules),
        ("word", findings.words),
    ):  # fmt: skip
        for line in lines:
            print(f"{heading}: {line}")


if __name__ == "__main__":
    main()
