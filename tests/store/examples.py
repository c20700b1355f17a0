"""Sample rows for the store tests."""

from gpusquad.store.jobs import JobRow

SECOND_US = 1_000_000


def job(number: int, **columns) -> JobRow:
    """A job row whose ID, submit time and sequence increase with ``number``."""
    return JobRow(**(_default_columns(number) | columns))


def _default_columns(number: int) -> dict:
    return {
        "id": f"01J{number:023d}",
        "name": f"train-{number}",
        "tenant": "physics",
        "user": "ada",
        "submitted_us": number * SECOND_US,
        "sequence": number,
        "gpus": 2,
        "gpu_milli": 2000,
        "spec": {"command": ["python", "train.py"], "env": {"Z": "1", "A": "2"}},
        "core": {"id": f"01J{number:023d}", "roles": [{"name": "worker", "count": 2}]},
    }
