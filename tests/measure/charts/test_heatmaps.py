"""Tests for heat maps as HTML page and as PNG."""

import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad.measure.charts.heatmap import MARKS, fit_map, heat_maps, memory_map, speed_map
from gpusquad.measure.charts.heatmap_html import render
from gpusquad.measure.charts.shades import SCALES, STOPS, contrast, ink_on, shade
from gpusquad.model.interference import (
    ConfidenceInterval,
    CoRun,
    MeasurementSeries,
    MeasurementSetting,
    SoloMeasurement,
)
from tests.measure.sample import sample

HOSTILE = '<img src=x onerror="alert(1)">'


class Page(HTMLParser):
    """Elements, titles, links and text of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.titles: list[str] = []
        self.links: list[str] = []
        self.content = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.titles += [value for name, value in attrs if name == "title"]
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.content += data


def renamed(measured: MeasurementSeries, name: str) -> MeasurementSeries:
    """The series with ``cnn`` renamed."""
    solos = tuple(replace(solo, workload=name if solo.workload == "cnn" else solo.workload) for solo in measured.solos)
    runs = tuple(
        replace(run, workloads=tuple(name if workload == "cnn" else workload for workload in run.workloads))
        for run in measured.co_runs
    )
    return replace(measured, solos=solos, co_runs=runs)


def test_page_has_no_links_and_no_scripts():
    page = Page(render(sample()))
    assert page.links == []
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    assert "prefers-color-scheme: dark" in page.content
    assert "@media print" in page.content


def test_page_contains_all_tables_titles_and_findings():
    page = Page(render(sample()))
    assert page.tags.count("table") == 8
    beside = "vgg16 beside cnn: 0.688 of its speed alone (95 %: 0.675 to 0.702, 5 repeats)"
    assert f"{beside}; loses significantly less than cnn does" in page.titles
    assert "cnn beside its twin: 0.779 of its speed alone (95 %: 0.765 to 0.793, 5 repeats)" in page.titles
    pair = "transformer-training and transformer-training"
    assert f"{pair} do not fit: transformer-training ran out of memory" in page.titles
    together = "cnn and vgg16 together: 18.0\u202fGB; alone 6.2\u202fGB and 11.8\u202fGB"
    assert any(title.startswith(together) for title in page.titles)
    assert "In 13 of 15 pairs one loses more than the other" in page.content
    assert MARKS["more"] in page.content


@given(st.text(min_size=1, max_size=20) | st.just(HOSTILE))
@settings(max_examples=25)
def test_workload_names_are_escaped(name):
    plain, renamed_page = Page(render(sample())), Page(render(renamed(sample(), name + "\u2a2f")))
    assert renamed_page.tags == plain.tags
    assert renamed_page.links == []


def test_hostile_name_is_shown_as_text():
    hostile = replace(renamed(sample(), HOSTILE), setting=replace(sample().setting, gpu=HOSTILE, driver=HOSTILE))
    text = render(hostile)
    assert "<img" not in text
    assert HOSTILE in Page(text).content


def test_speed_map_marks_asymmetric_pairs_and_missing_memory():
    heat_map = speed_map(sample())
    tiles = {(own, other): tile for own, row in zip(heat_map.rows, heat_map.tiles, strict=True)
             for other, tile in zip(heat_map.columns, row, strict=True)}  # fmt: skip
    assert [tile.is_twin for (own, other), tile in tiles.items()] == [own == other for own, other in tiles]
    assert tiles["transformer-inference", "stream"].mark == "more"
    assert tiles["stream", "transformer-inference"].mark == "less"
    assert tiles["stream", "matmul"].mark == ""
    assert [pair for pair, tile in tiles.items() if tile.ran_out] == [("transformer-training", "transformer-training")]
    assert tiles["cnn", "stream"].level == pytest.approx(1 - float(tiles["cnn", "stream"].text), abs=0.005)


def test_memory_map_has_a_column_for_solo_runs():
    heat_map = memory_map(sample())
    assert heat_map.columns == ("alone", *heat_map.rows)
    assert heat_map.tiles[0][0].text == "6.2\u202fGB"
    assert heat_map.tiles[0][1].level == pytest.approx(12.4 / 40)


def test_fit_map_names_the_workload_that_ran_out_of_memory():
    def detail(*out: bool) -> list[str]:
        run = CoRun(("a", "b"), (1000, 1000), out_of_memory=out)
        return [
            tile.text
            for row in fit_map(MeasurementSeries(MeasurementSetting("G", "1", "mps"), 0, (), (run,))).tiles
            for tile in row
        ]

    assert detail(True, False) == ["·", "row", "column", "·"]
    assert detail(True, True) == ["·", "both", "both", "·"]
    assert detail() == ["·", "both", "both", "·"]


def test_unmeasured_cells_are_empty():
    empty = MeasurementSeries(MeasurementSetting("G", "1", "mps"), 0)
    assert all(heat_map.tiles == () for heat_map in heat_maps(empty))
    assert "Interference on G" in render(empty)
    alone = MeasurementSeries(
        MeasurementSetting("G", "1", "mps"), 0, (SoloMeasurement("a", ConfidenceInterval(1, 1, 1)),)
    )
    assert [[tile.text for tile in row] for row in speed_map(alone).tiles] == [["·"]]


@given(st.sampled_from(SCALES), st.sampled_from(["light", "dark"]), st.floats(-1, 2))
def test_every_shade_has_readable_text(scale, theme, level):
    colour = shade(scale, level, theme)
    assert contrast(ink_on(colour), colour) >= 4.5


@pytest.mark.parametrize("scale", SCALES)
def test_higher_levels_are_darker_in_light_and_brighter_in_dark_theme(scale):
    black = (0, 0, 0)
    for theme, order in (("light", -1), ("dark", 1)):
        steps = [contrast(shade(scale, step / 20, theme), black) for step in range(21)]
        assert steps == sorted(steps, reverse=order < 0)
        assert shade(scale, 9.0, theme) == STOPS[scale, theme][-1]


@pytest.mark.parametrize("name", ["cnn", "$x^2$ $", "名前", HOSTILE * 3])
def test_png_is_written_for_any_workload_name(tmp_path: Path, name: str):
    pytest.importorskip("matplotlib")
    from gpusquad.measure.charts.heatmap_png import write_png

    path = tmp_path / "x.png"
    write_png(renamed(sample(), name), path)
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    assert 800 < width < 4000
    assert 800 < height < 4000
    assert len(zlib.compress(data)) > 10_000  # something is drawn


def test_png_is_written_for_an_empty_series(tmp_path: Path):
    pytest.importorskip("matplotlib")
    from gpusquad.measure.charts.heatmap_png import write_png

    write_png(MeasurementSeries(MeasurementSetting("G", "1", "mps"), 0), tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 1000
