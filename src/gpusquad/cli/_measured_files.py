"""Finds stored series and writes charts of them."""

from __future__ import annotations

import os
from pathlib import Path

from gpusquad.cli._service import note
from gpusquad.client.connect import home_of
from gpusquad.measure.series_files import StoredSeries, all_of, default_folder, read
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import MeasurementSeries


def folder_of(given: Path | None) -> Path:
    """The given folder, otherwise the default one in gpusquad's home."""
    return given if given is not None else default_folder(home_of(os.environ))


def named(file: str | None, folder: Path) -> StoredSeries:
    """The series at a path or with this file name in the folder; without a name the newest there."""
    if file is None:
        stored = all_of(folder)
        for one in stored.skipped:
            note(f"Skipped {one.path}: {one.why}")
        if not stored.kept:
            raise Invalid("file", f"found no series in {folder}", "measure one with gpusquad measure, or name a file")
        return stored.kept[-1]
    path = Path(file) if os.path.lexists(file) else folder / file
    if not path.exists():
        raise Invalid(
            "file", f"{file!r} does not exist, here or in {folder}", "list the series with gpusquad measure list"
        )
    return StoredSeries(path, read(path))


def check_outputs(html: Path | None, png: Path | None) -> None:
    """Check output paths before the measurement."""
    for option, path in (("html", html), ("png", png)):
        if path is not None:
            if path.is_dir():
                raise Invalid(option, f"{str(path)!r} is a directory", "name a file")
            path.parent.mkdir(parents=True, exist_ok=True)
    if png is not None:
        from gpusquad.measure.charts.heatmap_png import check_library

        check_library()


def write_outputs(measured: MeasurementSeries, html: Path | None, png: Path | None) -> list[Path]:
    """Write the requested files; return their paths."""
    if html is not None:
        from gpusquad import __version__
        from gpusquad.measure.charts.heatmap_html import render

        html.write_text(render(measured, __version__), encoding="utf-8", errors="backslashreplace")
    if png is not None:
        from gpusquad.measure.charts.heatmap_png import write_png

        write_png(measured, png)
    return [path for path in (html, png) if path is not None]


def before(measured: MeasurementSeries, folder: Path) -> StoredSeries | None:
    """The newest older series that is comparable. Its driver may differ."""
    from gpusquad.measure.analysis.compare import are_comparable

    older = [
        one
        for one in all_of(folder).kept
        if one.measured.at_us < measured.at_us and are_comparable(one.measured.setting, measured.setting)
    ]
    return older[-1] if older else None
