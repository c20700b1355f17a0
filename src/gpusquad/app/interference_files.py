"""Stored knowledge of interference: measured tables, and what the service learned online."""

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
    """Reads the tables that ``gpusquad measure`` saves, and reads them again when they change."""

    def __init__(self, home: Path, models: Path, sharing: Sharing, cluster: Cluster) -> None:
        self._tables = default_folder(home)
        self._learned = models / LEARNED_FILE
        self._sharing: Sharing = sharing
        self._memory_bytes = memory_of(cluster)
        self._file_times: Mapping[str, int] = {}
        self.model = self._load(None)
        self._load_learned()

    @property
    def is_empty(self) -> bool:
        return not self.model.has_tables and not len(self.model.online)

    def refresh(self) -> bool:
        """Read the tables again if they changed; return whether they did."""
        if self._names() == self._file_times:
            return False
        self.model = self._load(self.model)
        return True

    def save(self, learned: dict[str, Any]) -> None:
        """Save learned rates. If writing fails, only what was learned since the last save is lost on a restart."""
        try:
            self._learned.parent.mkdir(parents=True, exist_ok=True)
            write_private(self._learned, json.dumps(learned))
        except OSError as error:
            _log.warning("cannot save learned interference", error=str(error))

    def _load(self, before: InterferenceTable | None) -> InterferenceTable:
        self._file_times = self._names()
        stored = all_of(self._tables)
        for skipped in stored.skipped:
            _log.warning("cannot read a measurement table", file=str(skipped.path), why=skipped.why)
        measured = [series.measured for series in stored.kept]
        return InterferenceTable(measured, self._sharing, self._memory_bytes, before.online if before else None)

    def _load_learned(self) -> None:
        try:
            self.model.load(json.loads(self._learned.read_bytes()))
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError, Invalid) as error:
            _log.warning("cannot read learned interference", file=str(self._learned), error=str(error))

    def _names(self) -> dict[str, int]:
        """Table files with their modification times."""
        try:
            return {path.name: path.stat().st_mtime_ns for path in self._tables.glob(f"*{SUFFIX}")}
        except OSError:  # a file was removed meanwhile
            return {}


def memory_of(cluster: Cluster) -> dict[str, int]:
    """Memory of each card model; the smallest if cards of a model differ."""
    found: dict[str, int] = {}
    for card in (card for node in cluster.nodes for card in node.cards):
        found[card.model] = min(found.get(card.model, card.memory_bytes), card.memory_bytes)
    return found
