"""Stores trained predictors in files between starts of the service."""

from __future__ import annotations

import gzip
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from gpusquad.model.prediction import Predictor
from gpusquad.registry import create
from gpusquad.store.run_forecasts import RunKey

_log = structlog.get_logger("gpusquad.models")
_LEVEL = 4
"""Compression level: written often, read once."""


@dataclass(frozen=True)
class SavedPredictor:
    """A stored predictor."""

    predictor: Predictor
    last: RunKey
    """The latest run it has learned."""


@dataclass(frozen=True)
class PredictorFiles:
    """Files of one kind of predictor in a folder. JSON only, so that reading a file never runs code."""

    folder: Path
    spec: str
    """In the registry's syntax: ``recent:last=3``."""

    def make(self) -> Any:
        """An untrained predictor."""
        return create("predictor", self.spec)

    def path(self, predictor: Any) -> Path:
        return self.folder / f"{re.sub(r'[^A-Za-z0-9.=,+-]', '_', self.spec)}-{predictor.format}.json.gz"

    def load(self) -> SavedPredictor | None:
        """None: there is no usable file, and the predictor is trained from history."""
        predictor = self.make()
        if not hasattr(predictor, "load"):
            return None
        path = self.path(predictor)
        try:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                kept = json.load(file)
            if (kept["spec"], kept["format"]) != (self.spec, predictor.format):
                raise ValueError(f"written by {kept['spec']}, format {kept['format']}")
            ended_us, job_id, attempt = kept["last"]
            predictor.load(kept["model"])
            return SavedPredictor(predictor, (int(ended_us), str(job_id), int(attempt)))
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever is wrong, the history still exists
            _log.warning("predictor file not readable; training from history", file=str(path), error=repr(error))
            return None

    def save(self, predictor: Any, last: RunKey) -> bool:
        """Write the file completely or not at all. False: not written, which only costs time at the next start."""
        if not hasattr(predictor, "dump"):
            return False
        try:
            kept = {"spec": self.spec, "format": predictor.format, "last": list(last), "model": predictor.dump()}
            text = json.dumps(kept, separators=(",", ":"))
            self._write(self.path(predictor), gzip.compress(text.encode(), _LEVEL, mtime=0))
        except (OSError, ValueError, TypeError, NotImplementedError) as error:
            _log.warning("predictor not saved", error=repr(error))
            return False
        return True

    def _write(self, path: Path, data: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
