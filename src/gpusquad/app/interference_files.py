"""What this service knows of jobs that share a card: the tables that were measured, and what it learned since."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from gpusquad.app.home import write_private
from gpusquad.measure.series_files import SUFFIX, all_of, default_folder
from gpusquad.model.cluster import Cluster
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import Sharing
from gpusquad.predict.interference import InterferenceTable

LEARNED_FILE = "interference.json"
_log = structlog.get_logger("gpusquad.neighbours")


class InterferenceFiles:
    """Tables lie where ``gpusquad measure`` puts them, and count from the next look on."""

    def __init__(self, home: Path, models: Path, sharing: Sharing, cluster: Cluster) -> None:
        self._tables = default_folder(home)
        self._learned = models / LEARNED_FILE
        self._sharing: Sharing = sharing
        self._memory_bytes = memory_of(cluster)
        self._seen: Mapping[str, int] = {}
        self.model = self._made(None)
        self._recall()

    @property
    def is_empty(self) -> bool:
        return not self.model.has_tables and not len(self.model.online)

    def refresh(self) -> bool:
        """Reads the tables again if there are others now."""
        if self._names() == self._seen:
            return False
        self.model = self._made(self.model)
        return True

    def save(self, learned: dict[str, Any]) -> None:
        """A file that cannot be written costs what was learned since the last one, and no more."""
        try:
            self._learned.parent.mkdir(parents=True, exist_ok=True)
            write_private(self._learned, json.dumps(learned))
        except OSError as error:
            _log.warning("what was learned of neighbours could not be kept", error=str(error))

    def _made(self, before: InterferenceTable | None) -> InterferenceTable:
        self._seen = self._names()
        shelf = all_of(self._tables)
        for skipped in shelf.skipped:
            _log.warning("a table of measurements cannot be read", file=str(skipped.path), why=skipped.why)
        measured = [kept.measured for kept in shelf.kept]
        return InterferenceTable(measured, self._sharing, self._memory_bytes, before.online if before else None)

    def _recall(self) -> None:
        try:
            self.model.load(json.loads(self._learned.read_bytes()))
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError, Invalid) as error:
            _log.warning("what was learned of neighbours cannot be read", file=str(self._learned), error=str(error))

    def _names(self) -> dict[str, int]:
        """Files, and when they were written."""
        try:
            return {path.name: path.stat().st_mtime_ns for path in self._tables.glob(f"*{SUFFIX}")}
        except OSError:  # one was removed while we looked
            return {}


def memory_of(cluster: Cluster) -> dict[str, int]:
    """What a card of each model has, the smallest where they differ."""
    found: dict[str, int] = {}
    for card in (card for node in cluster.nodes for card in node.cards):
        found[card.model] = min(found.get(card.model, card.memory_bytes), card.memory_bytes)
    return found
