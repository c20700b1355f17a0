"""Expands a job file into one concrete job per sweep point."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import cast

from gpusquad.model.errors import Invalid
from gpusquad.spec.check import open_data, spec_from_dict
from gpusquad.spec.model import JobFile, JobSpec
from gpusquad.spec.params import Scalar, as_text, check_params
from gpusquad.spec.paths import at
from gpusquad.spec.placeholders import MAX_EXPANDED_CHARS, Filler
from gpusquad.spec.sweep import INDEX, Point, points, swept_names

_MAX_SHOWN_CHARS = 120


def expand(file: JobFile, params: Mapping[str, Scalar] | None = None) -> list[JobSpec]:
    """The jobs in the order of the sweep. ``params`` override the defaults of the file."""
    fixed = _fixed(file, params or {})
    rows = points(file.sweep)
    data = open_data(file)
    _check_size(file, len(rows))
    filler = Filler()
    specs = []
    for index, row in enumerate(rows):
        values = fixed | {name: as_text(value) for name, value in row.items()}
        if file.sweep is not None:
            values[INDEX] = str(index)
        try:
            specs.append(spec_from_dict(cast(dict, filler.fill(data, values))))
        except Invalid as error:
            raise _at_point(error, index, row) if row else error from None
    return specs


def _fixed(file: JobFile, given: Mapping[str, Scalar]) -> dict[str, str]:
    """Parameters that are the same for every point."""
    swept = swept_names(file.sweep)
    try:
        check_params(given)
        for name in given:
            _check_given(name, file, swept)
    except Invalid as error:
        raise at("params", error) from None
    values = file.params | dict(given)
    for name, value in values.items():
        if value is None and name not in swept:
            raise Invalid(f"params.{name}", "has no value", "set it when you submit, for example with --set")
    return {name: as_text(value) for name, value in values.items() if value is not None}


def _check_given(name: str, file: JobFile, swept: Collection[str]) -> None:
    if name in swept:
        raise Invalid(name, "is set by the sweep", "remove it from the sweep")
    if name not in file.params:
        close = get_close_matches(name, file.params, 1)
        known = ", ".join(file.params) or "none"
        raise Invalid(
            name, "is not a parameter of this job", f"did you mean {close[0]!r}?" if close else f"known: {known}"
        )


def _check_size(file: JobFile, jobs: int) -> None:
    chars = len(file.model_dump_json(exclude={"sweep"})) if jobs > 1 else 0
    if chars * jobs > MAX_EXPANDED_CHARS:
        raise Invalid("sweep", f"expands to {jobs} jobs of {chars} characters", "move long texts into separate files")


def _at_point(error: Invalid, index: int, point: Point) -> Invalid:
    shown = ", ".join(f"{name}={value}" for name, value in point.items())
    shown = shown if len(shown) <= _MAX_SHOWN_CHARS else shown[:_MAX_SHOWN_CHARS] + "…"
    return Invalid(error.field, f"{error.problem}, in point {index} of the sweep ({shown})", error.cure)
