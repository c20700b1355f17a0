"""Which series is meant, and what is written of it."""

from __future__ import annotations

import os
from pathlib import Path

from gpusquad.cli._service import note
from gpusquad.client.connect import home_of
from gpusquad.measure.series_files import StoredSeries, all_of, default_folder, read
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import MeasurementSeries


def folder_of(given: Path | None) -> Path:
    """As named, else in gpusquad's home."""
    return given if given is not None else default_folder(home_of(os.environ))


def named(file: str | None, folder: Path) -> StoredSeries:
    """A path, or the name of a file in the folder; without one the newest series there."""
    if file is None:
        shelf = all_of(folder)
        for one in shelf.skipped:
            note(f"skipped {one.path}: {one.why}")
        if not shelf.kept:
            raise Invalid("file", f"no series lies in {folder}", "measure one with gpusquad measure, or name a file")
        return shelf.kept[-1]
    path = Path(file) if os.path.lexists(file) else folder / file
    if not path.exists():
        raise Invalid("file", f"{file!r} is neither a file nor one in {folder}", "gpusquad measure list names them")
    return StoredSeries(path, read(path))


def check_outputs(html: Path | None, png: Path | None) -> None:
    """Before anything is measured, not after."""
    for option, path in (("html", html), ("png", png)):
        if path is not None:
            if path.is_dir():
                raise Invalid(option, f"{str(path)!r} is a directory", "name a file")
            path.parent.mkdir(parents=True, exist_ok=True)
    if png is not None:
        from gpusquad.measure.charts.heatmap_png import check_library

        check_library()


def write_outputs(measured: MeasurementSeries, html: Path | None, png: Path | None) -> list[Path]:
    """Those asked for."""
    if html is not None:
        from gpusquad import __version__
        from gpusquad.measure.charts.heatmap_html import render

        html.write_text(render(measured, __version__), encoding="utf-8", errors="backslashreplace")
    if png is not None:
        from gpusquad.measure.charts.heatmap_png import write_png

        write_png(measured, png)
    return [path for path in (html, png) if path is not None]


def before(measured: MeasurementSeries, folder: Path) -> StoredSeries | None:
    """The newest older series that can be compared, another driver's included."""
    from gpusquad.measure.analysis.compare import are_comparable

    older = [
        one
        for one in all_of(folder).kept
        if one.measured.at_us < measured.at_us and are_comparable(one.measured.setting, measured.setting)
    ]
    return older[-1] if older else None
