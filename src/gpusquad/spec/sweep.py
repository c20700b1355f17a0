"""Sweeps: one job file, many jobs.

``{lr: [0.1, 0.01], seed: [1, 2]}`` is every pair; the last name changes fastest. ``{zip: {lr: […], steps: […]}}``
combines the lists element by element, and the result with the other lists. A list of ``{lr: 0.1}`` is used as given.
"""

from __future__ import annotations

from itertools import product
from math import prod

from gpusquad.model.errors import Invalid
from gpusquad.spec.params import MAX_PARAMS, Scalar, check_name, check_params, check_scalar
from gpusquad.spec.paths import at, join, key_text, short

MAX_POINTS = 10_000
INDEX = "sweep.index"
"""Placeholder for the index of a point, from 0."""
ZIP = "zip"

Point = dict[str, Scalar]
Sweep = dict[str, object] | list[Point]


def check_sweep(value: object) -> Sweep:
    """Validate the form and size of a sweep."""
    if isinstance(value, (list, tuple)):
        return _check_rows(list(value))
    if not isinstance(value, dict):
        raise Invalid("", f"must map names to lists of values, not {short(value)}", "write for example {seed: [1, 2]}")
    if not value:
        raise Invalid("", "is empty", "add at least one parameter, or leave out the field")
    _check_axes(_lists(value))
    _check_zip(value)
    _check_count(prod(len(axis) for axis in _axes(value)))
    return value


def points(sweep: Sweep | None) -> list[Point]:
    """Parameters of each job; one empty point if there is no sweep."""
    if sweep is None:
        return [{}]
    if isinstance(sweep, list):
        return sweep
    return [{name: value for part in row for name, value in part.items()} for row in product(*_axes(sweep))]


def swept_names(sweep: Sweep | None) -> set[str]:
    """All names that at least one point sets."""
    if sweep is None:
        return set()
    if isinstance(sweep, list):
        return {name for point in sweep for name in point}
    return {name for axis in _axes(sweep) for name in axis[0]}


def _axes(sweep: dict) -> list[list[Point]]:
    """Axes of the product. The rows of ``zip`` are one axis."""
    axes = [[{name: value} for value in values] for name, values in _lists(sweep).items()]
    zipped = _zipped(sweep)
    if zipped:
        rows = zip(*zipped.values(), strict=True)
        axes.append([dict(zip(zipped, row, strict=True)) for row in rows])
    return axes


def _lists(sweep: dict) -> dict:
    zipped = _zipped(sweep)
    return {name: values for name, values in sweep.items() if zipped is None or name != ZIP}


def _zipped(sweep: dict) -> dict | None:
    """The zipped lists. A list under ``zip`` is instead a parameter with that name."""
    value = sweep.get(ZIP)
    return value if isinstance(value, dict) else None


def _check_axes(axes: dict) -> None:
    _check_names(len(axes))
    for name, values in axes.items():
        check_name(name)
        if not isinstance(values, (list, tuple)):
            raise Invalid(key_text(name), f"must be a list of values, not {short(values)}", f"write {name}: [1, 2]")
        if not values:
            raise Invalid(name, "is empty", "add at least one value")
        _check_count(len(values), name)
        for index, value in enumerate(values):
            check_scalar(value, f"{name}[{index}]")


def _check_zip(sweep: dict) -> None:
    zipped = _zipped(sweep)
    if zipped is None:
        return
    if not zipped:
        raise Invalid(ZIP, "is empty", "add at least one parameter, or leave it out")
    try:
        _check_axes(zipped)
    except Invalid as error:
        raise Invalid(join(ZIP, error.field), error.problem, error.cure) from None
    lengths = {name: len(values) for name, values in zipped.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in list(lengths.items())[:8])
        raise Invalid(ZIP, f"has lists of different lengths ({shown})", "use lists of equal length")
    for name in zipped:
        if name != ZIP and name in sweep:
            raise Invalid(join(ZIP, name), "is set twice by the sweep", "remove one of them")


def _check_rows(rows: list) -> Sweep:
    if not rows:
        raise Invalid("", "is empty", "add at least one point, or leave out the field")
    _check_count(len(rows))
    for index, row in enumerate(rows):
        try:
            check_params(row)
        except Invalid as error:
            raise at(f"[{index}]", error) from None
    _check_names(len(swept_names(rows)))
    return rows


def _check_names(count: int) -> None:
    if count > MAX_PARAMS:
        raise Invalid("", f"has {count} parameters", f"use at most {MAX_PARAMS}")


def _check_count(count: int, where: str = "") -> None:
    if count > MAX_POINTS:
        raise Invalid(where, f"expands to {count} jobs", f"use at most {MAX_POINTS}, or several submissions")
