"""Reports: escaped names, exact CSV files, and small files for large runs."""

import csv
import io
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from gpusquad.model.cluster import grid
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.units import US_PER_S
from gpusquad.sim.metrics import summarise
from gpusquad.sim.outcome import AttemptSpan, ClusterSamples, Outcome, SimulationResult
from gpusquad.sim.report import series, text
from gpusquad.sim.report.gantt import cards_shown, gantt
from gpusquad.sim.report.html import render, write_report
from gpusquad.sim.report.jobs_csv import exact_seconds, write_jobs
from gpusquad.sim.report.lines import cells, lines
from gpusquad.sim.report.table import print_summary

HOSTILE_TEXT = "<img src=x onerror=alert(1)>"
S = US_PER_S


def make_job(job_id: str, submitted_us: int = 0, gpus: int = 1, **fields) -> Job:
    return Job(job_id, (Role("w", gpus, Request(gpus=1)),), submitted_us, **fields)


def finished(job: Job, start_us: int, end_us: int, *cards: int) -> Outcome:
    return Outcome(job, end_us - start_us, "succeeded", end_us, [AttemptSpan(start_us, end_us, cards)])


def make_result(outcomes: list[Outcome], label: str = "test", spec: str = "1x4", **fields) -> SimulationResult:
    samples = fields.pop("samples", None) or _samples(outcomes, grid(spec).gpus)
    return SimulationResult(label, {"order": label, "plan": "easy"}, grid(spec), outcomes, samples, **fields)


def _samples(outcomes: list[Outcome], gpus: int) -> ClusterSamples:
    """Samples of the cluster over time, computed from the outcomes."""
    changes = [(o.job.submitted_us, 1, 0) for o in outcomes if o.spans]
    for outcome in outcomes:
        for span in outcome.spans:
            changes += [(span.started_us, -1, len(span.cards)), (span.ended_us, 0, -len(span.cards))]
    samples, queued, busy = ClusterSamples(), 0, 0
    for at_us, more_queued, more_busy in sorted(changes):
        queued, busy = queued + more_queued, busy + more_busy
        samples.at_us.append(at_us)
        samples.queued.append(queued)
        samples.busy_milli.append(1000 * busy)
        samples.stranded.append(gpus - busy if queued else 0)
    return samples


def sequential_jobs(count: int, label: str = "test", run_s: int = 100, spec: str = "1x4") -> SimulationResult:
    """Jobs that start one after another on all cards in turn."""
    gpus = grid(spec).gpus
    outcomes = [
        finished(
            make_job(f"j{i}", i * S, tenant=f"t{i % 3}"), (i + i // gpus) * S, (i + i // gpus + run_s) * S, i % gpus
        )
        for i in range(count)
    ]
    return make_result(outcomes, label, spec)


class ParsedPage(HTMLParser):
    """All tags with their attributes, and all text outside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text += data


def figures_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


# The HTML file


def test_names_from_users_are_escaped_everywhere() -> None:
    job = make_job(HOSTILE_TEXT, 0, name=HOSTILE_TEXT, tenant=HOSTILE_TEXT, user=HOSTILE_TEXT)
    other = make_job("</script><script>alert(2)</script>", 0, tenant='"><b>')
    outcomes = [finished(job, 10 * S, 20 * S, 0), finished(other, 5 * S, 20 * S, 1)]
    outcomes[0].why = HOSTILE_TEXT
    result = make_result(outcomes, HOSTILE_TEXT, moved_reservations=[(HOSTILE_TEXT, 1, 2, HOSTILE_TEXT)])
    result.policies[HOSTILE_TEXT] = HOSTILE_TEXT
    page = render([result, sequential_jobs(5, '"><script>alert(3)</script>')])
    parsed = ParsedPage(page)
    assert HOSTILE_TEXT in parsed.text
    assert not [tag for tag, _ in parsed.tags if tag == "img"]
    assert sum(tag == "script" for tag, _ in parsed.tags) == 3  # the figures, plotly.js and the script of the page
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]


def test_plot_texts_are_escaped_for_plotly() -> None:
    result = make_result(
        [
            finished(make_job(HOSTILE_TEXT, name="a & b", tenant=HOSTILE_TEXT), 0, S, 0),
            finished(make_job("x"), 0, S, 1),
        ],
        HOSTILE_TEXT,
    )
    plots = figures_of(render([result]))
    texts = json.dumps(plots)
    assert "<img" not in texts
    hover = next(h for trace in plots["cards-0"]["data"] for h in trace["hovertext"] if "onerror" in h)
    assert hover.startswith("<b>&lt;img src=x onerror=alert(1)&gt;</b><br>a &amp; b")


def test_report_loads_nothing_and_runs_only_its_own_scripts() -> None:
    parsed = ParsedPage(render([sequential_jobs(3)]))
    assert not [attributes for _, attributes in parsed.tags if {"src", "href"} & set(attributes)]
    policy = next(a["content"] for tag, a in parsed.tags if tag == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "'unsafe-inline'" not in policy.split(";")[1]


def test_report_compares_several_results(tmp_path: Path) -> None:
    results = [sequential_jobs(40, "slow", 200), sequential_jobs(40, "fast", 50)]
    write_report(results, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    plots = figures_of(page)
    assert [trace["name"] for trace in plots["queue"]["data"]] == ["slow", "fast"]
    assert {"wait", "slowdown", "jct", "utilisation", "cards-0", "cards-1"} <= set(plots)
    colours = [[trace["line"]["color"] for trace in plots[name]["data"]] for name in ("queue", "wait", "utilisation")]
    assert colours == [["series-0", "series-1"]] * 3
    assert 'class="best"' in page
    assert page.count('role="tab"') == 2


@pytest.mark.parametrize(
    "outcomes",
    [
        [],
        [Outcome(make_job("no"), S, "refused")],
        [Outcome(make_job("waits"), S)],
        [finished(make_job("instant"), 0, 0, 0)],
        [finished(Job("cpu", (Role("w", 1, Request(cpu_milli=1)),)), 0, S)],
        [finished(make_job("half \ud800 a character", tenant="\x1b[31m"), 0, S, 0)],
    ],
    ids=["no jobs", "refused", "waiting", "instant", "cpu only", "odd text"],
)
def test_unusual_results_can_be_reported(outcomes: list[Outcome], tmp_path: Path) -> None:
    result = make_result(outcomes)
    write_report([result], tmp_path / "report.html")
    write_jobs(result, tmp_path / "jobs.csv")
    print_summary([summarise(result)], Console(file=io.StringIO()))
    assert (tmp_path / "report.html").read_bytes().decode("utf-8")


def test_report_of_a_cluster_without_cards_is_rendered() -> None:
    assert render([make_result([], spec="2x0")])


def test_report_without_results_is_refused() -> None:
    with pytest.raises(Invalid, match="no result"):
        render([])


def test_missing_plotly_is_reported_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(Invalid, match=re.escape("gpusquad[report]")):
        render([sequential_jobs(3)])


def test_report_of_many_jobs_is_small_and_states_what_it_omits(tmp_path: Path) -> None:
    result = sequential_jobs(20_000, run_s=1, spec="16x8")
    write_report([result, result, result], tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 10_000_000
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Shows 64 of 128 cards" in page
    assert "Down-sampled: 10,000 runs on these cards" in page
    for name, plot in figures_of(page).items():
        points = [len(trace["x"]) for trace in plot["data"]]
        assert sum(points) <= 5000 if name.startswith("cards") else max(points) <= 2000


def test_longest_waits_include_pending_jobs() -> None:
    outcomes = [
        finished(make_job("ran"), 3 * S, 1000 * S, 0),
        Outcome(make_job("stuck", 5 * S, 4), S, why="needs 4, free 3"),
    ]
    shown = ParsedPage(render([make_result(outcomes)])).text
    assert "still waiting" in shown
    assert "needs 4, free 3" in shown


# The Gantt chart


def test_cards_shown_are_whole_nodes_spread_over_the_cluster() -> None:
    position, names = cards_shown(grid("10x8"), 40)
    assert names[:9] == (*(f"n0/{i}" for i in range(8)), "n2/0")
    assert len(names) == 40
    assert [position[i] for i in (0, 7, 8, 16)] == [0, 7, -1, 8]
    assert cards_shown(grid("2x2"), 64)[1] == ("n0/0", "n0/1", "n1/0", "n1/1")
    assert len(cards_shown(grid("1x100"), 64)[1]) == 64


def test_jobs_that_share_a_card_are_drawn_in_separate_lanes() -> None:
    outcomes = [
        finished(make_job("long"), 0, 100, 0),
        finished(make_job("beside"), 10, 20, 0),
        finished(make_job("next"), 20, 30, 0),
        finished(make_job("alone"), 0, 50, 1),
    ]
    chart = gantt(make_result(outcomes))
    lane_of = {outcomes[o].job.id: lane for o, lane in zip(chart.bars.outcome, chart.bars.lane, strict=True)}
    assert lane_of == {"long": 0, "beside": 1, "next": 1, "alone": 0}
    assert chart.lanes.tolist() == [2, 1, 1, 1]
    assert chart.shortest_us == 0


def test_adjacent_short_bars_are_merged_without_losing_time() -> None:
    outcomes = [finished(make_job("long"), 0, 10_000, 0)]
    outcomes += [finished(make_job(f"s{i}"), 10_000 + 10 * i, 10_009 + 10 * i, 0) for i in range(50)]
    chart = gantt(make_result(outcomes), most_bars=5)
    bars = chart.bars
    assert len(bars) == 2
    assert (bars.outcome.tolist(), bars.attempts.tolist()) == ([0, -1], [1, 50])
    assert (bars.start_us[1], bars.end_us[1]) == (10_000, 10_499)
    assert chart.attempts == 51


# Series


def test_thin_steps_keeps_ends_and_peaks() -> None:
    at = np.arange(100_000)
    values = np.zeros(100_000, dtype=np.int64)
    values[54_321], values[77_777] = 99, -5
    times, levels = series.thin_steps(at, values, most=400)
    assert len(times) <= 400
    assert (times[0], times[-1]) == (0, 99_999)
    assert {54_321, 77_777} <= set(times.tolist())
    assert (levels.max(), levels.min()) == (99, -5)
    assert (np.diff(times) > 0).all()


def test_thin_steps_keeps_the_last_value_of_an_instant() -> None:
    times, levels = series.thin_steps([0, 5, 5, 5, 9], [1, 2, 3, 4, 0])
    assert (times.tolist(), levels.tolist()) == ([0, 5, 9], [1, 4, 0])


def test_mean_steps_keep_the_area() -> None:
    rng = np.random.default_rng(1)
    at = np.unique(rng.integers(0, 10_000, 3000))
    values = rng.integers(0, 50, len(at))
    times, means, stretch = series.mean_steps(at, values, 0, 10_000, most=100)
    exact = float((values * np.diff(np.append(at, 10_000))).sum())
    assert len(times) == 100
    assert stretch == 100
    assert means.sum() * stretch == pytest.approx(exact)


def test_cumulative_gives_the_distribution_of_values() -> None:
    x, y = series.cumulative(np.array([3.0, 1.0, 2.0, 2.0]))
    assert x.tolist() == [1, 1, 2, 2, 3]
    assert y.tolist() == [0, 0.25, 0.5, 0.75, 1]


# Terminal


def print_results(*results: SimulationResult, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_summary([summarise(result) for result in results], console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_terminal_summary_marks_the_best_result() -> None:
    output = print_results(sequential_jobs(8, "slow", 200), sequential_jobs(8, "fast", 110))
    jct = next(line for line in output.splitlines() if "JCT, mean" in line)
    assert jct.split() == ["JCT,", "mean", "3.34", "min", "★", "1.84", "min"]
    assert "★" not in next(
        line for line in output.splitlines() if "Wait, mean" in line
    )  # equal values: none is the best


def test_terminal_summary_shows_names_without_markup_or_escapes() -> None:
    output = print_results(
        make_result([finished(make_job("x", tenant="[red]x[/red]"), 0, S, 0), finished(make_job("y"), 0, S, 1)])
    )
    assert "[red]x[/red]" in output
    assert "\x1b" not in print_results(
        make_result([finished(make_job("x", user="\x1b[2J"), 0, S, 0), finished(make_job("y"), 0, S, 1)])
    )


def test_lines_without_values_are_omitted() -> None:
    summary = summarise(sequential_jobs(3))
    labels = [line.label for line in lines([summary])]
    assert "Wait, mean" in labels
    assert not {"Refused", "Restarts", "Deadlines met", "Reservations broken"} & set(labels)


def test_cells_of_a_row_have_one_unit() -> None:
    summaries = [summarise(sequential_jobs(8, "long", 20_000)), summarise(sequential_jobs(8, "short", 50))]
    line = next(line for line in lines(summaries) if line.label == "JCT, mean")
    assert [cell.text for cell in cells(line, summaries)] == ["5.56 h", "0.014 h"]
    assert [cell.best for cell in cells(line, summaries)] == [False, True]
    assert [cell.change for cell in cells(line, summaries)] == ["", "−100 %"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "–"), (0, "0 s"), (0.25, "0.25 s"), (90, "90 s"), (600, "10 min"), (9000, "2.50 h"), (1e6, "11.6 d")],
)
def test_duration_is_shown_with_a_suitable_unit(seconds: float | None, shown: str) -> None:
    assert text.duration(seconds) == shown


# CSV


def test_jobs_csv_has_exact_times_and_cards(tmp_path: Path) -> None:
    preempted_job = Outcome(
        make_job("twice", 1, 2),
        5,
        "succeeded",
        2**53 + 1,
        [AttemptSpan(1_500_000, 2_000_000, (0, 1)), AttemptSpan(3, 4, (3, 2))],
    )
    outcomes = [
        finished(make_job("whole", 0), 1 * S, 12 * S, 0),
        preempted_job,
        Outcome(make_job("refused, sadly", 7_000_010), S, "refused", ended_us=7_000_010),
        Outcome(make_job("running", 0), S, spans=[AttemptSpan(100_000, 9 * S, (1, 1))]),
    ]
    write_jobs(make_result(outcomes), tmp_path / "jobs.csv")
    assert (tmp_path / "jobs.csv").read_bytes().decode() == (
        "job_id,submitted_s,started_s,ended_s,cards\n"
        "whole,0,1,12,n0/0\n"
        "twice,0.000001,1.5,9007199254.740993,n0/3 n0/2\n"
        '"refused, sadly",7.00001,,,\n'
        "running,0,0.1,,n0/1\n"
    )


def test_jobs_csv_quotes_special_characters(tmp_path: Path) -> None:
    job_id = 'a "quoted"\nname'
    write_jobs(make_result([finished(make_job(job_id), 0, S, 0)]), tmp_path / "jobs.csv")
    with (tmp_path / "jobs.csv").open(newline="") as file:
        assert [row["job_id"] for row in csv.DictReader(file)] == [job_id]


@pytest.mark.parametrize(
    ("value_us", "shown"), [(0, "0"), (1, "0.000001"), (1_000_000, "1"), (1_100_000, "1.1"), (-1_500_000, "-1.5")]
)
def test_exact_seconds_has_no_rounding(value_us: int, shown: str) -> None:
    assert exact_seconds(value_us) == shown
