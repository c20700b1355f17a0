"""Answers of estimators: one JSON object with the fields of ``expect``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from gpusquad.spec.check import spec_from_dict, spec_to_dict
from gpusquad.spec.model import JobSpec

MAX_OUTPUT_BYTES = 64 * 1024
FIELDS = ("run", "run_high", "memory", "by_gpus", "cpu", "host_memory")


@dataclass(frozen=True, slots=True)
class EstimatorAnswer:
    """What an estimator printed, or why nothing of it is used."""

    command: str
    fields: dict[str, Any]
    warning: str = ""
    took_s: float = 0.0
    cached: bool = False

    def record(self) -> dict[str, Any]:
        """As it is stored with the job."""
        return asdict(self) | {"state": "failed" if self.warning else "done"}

    @property
    def text(self) -> str:
        if self.warning:
            return f"estimator: {self.warning}; the job is queued without its answer"
        given = ", ".join(f"{name}: {json.dumps(value)}" for name, value in self.fields.items())
        return f"estimator: {given}{' (cached answer)' if self.cached else ''}"


def failed(command: str, why: str, took_s: float = 0.0) -> EstimatorAnswer:
    return EstimatorAnswer(command, {}, f"{command}: {why}", took_s)


def read_answer(command: str, printed: bytes | None, took_s: float) -> EstimatorAnswer:
    """From its standard output: the whole of it, or its last line."""
    if printed is None:
        return failed(command, "its output cannot be read", took_s)
    if len(printed) > MAX_OUTPUT_BYTES:
        return failed(command, f"printed more than {MAX_OUTPUT_BYTES >> 10} KiB", took_s)
    found = _object(printed)
    if found is None:
        cure = 'one JSON object is expected, for example {"run": "2h"}'
        return failed(command, f"printed no JSON object; {cure}", took_s)
    found = found.get("expect", found)
    unknown = sorted(set(found) - set(FIELDS)) if isinstance(found, dict) else ["expect"]
    if unknown:
        return failed(command, f"printed {unknown[0][:60]!r}, which is not one of {', '.join(FIELDS)}", took_s)
    given = {name: value for name, value in found.items() if value is not None}
    return EstimatorAnswer(command, given, took_s=took_s) if given else failed(command, "printed no field", took_s)


def with_answer(spec: JobSpec, answer: EstimatorAnswer) -> JobSpec:
    """The job with the answer as its ``expect``. Raises ``Invalid`` if a value cannot be used."""
    data = spec_to_dict(spec)
    kept = {name: value for name, value in data.pop("expect", {}).items() if name in FIELDS}
    expect = kept | answer.fields
    return spec_from_dict(data | ({"expect": expect} if expect else {}))


def _object(printed: bytes) -> dict[str, Any] | None:
    text = printed.decode("utf-8", "replace").strip()
    for part in (text, text.rpartition("\n")[2]):
        try:
            found = json.loads(part)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return None
