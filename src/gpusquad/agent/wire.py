"""The JSON lines between the server and its agent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """One live attempt, as the server sends it."""

    job: str
    attempt: int
    folder: str
    cards: tuple[str, ...]
    pids: tuple[int, ...]

    @property
    def key(self) -> tuple[str, int]:
        return (self.job, self.attempt)


def read_runs(line: bytes | str) -> tuple[WatchedRun, ...]:
    """The full set of live runs. ValueError: not such a line."""
    try:
        message = json.loads(line)
        return tuple(_run(entry) for entry in message["runs"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"not a message about runs: {error}") from error


def read_tests(line: bytes | str) -> tuple[str, ...]:
    """The full set of cards to test. ValueError: not such a line."""
    try:
        return tuple(str(card) for card in json.loads(line).get("tests", ()))
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"not a message about tests: {error}") from error


def encode(message: Mapping[str, Any]) -> bytes:
    """One line. A number that JSON cannot represent is a bug here, and must be found before it is sent."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """A message of the agent. ValueError: not one."""
    try:
        message = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise ValueError("not a message with a kind")
    return message


def _run(entry: Mapping[str, Any]) -> WatchedRun:
    return WatchedRun(
        job=str(entry["job"]),
        attempt=int(entry["attempt"]),
        folder=str(entry["folder"]),
        cards=tuple(str(card) for card in entry["cards"]),
        pids=tuple(int(pid) for pid in entry["pids"]),
    )
