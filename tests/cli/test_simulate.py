"""``gpusquad simulate`` as a user runs it."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpusquad.app.config import PredictConfig
from gpusquad.cli import app
from gpusquad.cli._choices import split
from gpusquad.server.services.policy import DEFAULT_MODE

JOB = '{{"id": "{}", "submitted": {}, "gpus": {}, "run": {}, "estimate": {}}}'


@pytest.fixture
def sample(repository: Path) -> Path:
    return repository / "examples" / "sample.jsonl"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Three jobs that need one card each, on a machine that will have one."""
    path = tmp_path / "three.jsonl"
    path.write_text("\n".join(JOB.format(name, at, 1, 100, 120) for name, at in (("a", 0), ("b", 10), ("c", 20))))
    return path


def run(*arguments: object, code: int = 0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def simulate(*arguments: object, code: int = 0):
    return run("simulate", *arguments, code=code)


def numbers(*arguments: object) -> dict:
    return json.loads(simulate(*arguments, "--json").stdout)


def problem(*arguments: object) -> str:
    """What is said of bad input: one line, on stderr, and never a traceback."""
    result = simulate(*arguments, code=2)
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    return result.stderr.strip()


def test_a_whole_run_in_a_process_of_its_own(sample, tmp_path):
    report, jobs = tmp_path / "out" / "report.html", tmp_path / "out" / "jobs.csv"
    command = [
        Path(sys.executable).with_name("gpusquad"), "simulate", sample, "--cluster", "2x4", "--order", "fifo",
        "--plan", "easy:backfill=shortest", "--place", "binpack", "--report", report, "--jobs-out", jobs,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "estimates: predict (predictor combined)" in done.stdout
    assert "fifo+easy:backfill=shortest+binpack" in done.stdout
    assert report.read_text().startswith("<!doctype html>")
    rows = list(csv.DictReader(jobs.open()))
    assert len(rows) == 62
    assert list(rows[0]) == ["job_id", "submitted_s", "started_s", "ended_s", "cards"]


def test_json_is_all_that_is_printed(trace):
    result = simulate(trace, "--cluster", "1x1", "--json")
    data = json.loads(result.stdout)
    assert result.stderr == ""
    assert (data["format"], data["jobs"], data["estimates"]["kind"]) == ("jsonl", 3, "predict")
    assert data["results"][0]["makespan_s"] == 300
    assert data["results"][0]["policies"] == {
        "order": "fifo", "plan": "easy:backfill=merit", "place": "measured", "preempt": "priority"
    }  # fmt: skip


def test_modes_and_specs_side_by_side(sample, tmp_path):
    chosen = "fifo,jct,fifo+easy:backfill=shortest,reservations=2+spread,las+none"
    data = numbers(sample, "--cluster", "2x4", "--compare", chosen, "--jobs-out", tmp_path / "jobs.csv")
    labels = [result["label"] for result in data["results"]]
    assert labels == ["fifo", "jct", "fifo+easy:backfill=shortest,reservations=2+spread", "las+none"]
    assert data["results"][3]["policies"] == {"order": "las", "plan": "none", "place": "binpack"}
    assert len(list(tmp_path.glob("jobs-*.csv"))) == 4
    assert "★" in simulate(sample, "--cluster", "2x4", "--compare", "fifo,jct").stdout


def test_options_take_the_place_of_the_modes_own(trace):
    data = numbers(trace, "--cluster", "1x1", "--mode", "slo", "--place", "spread", "--preempt", "none")
    assert data["results"][0]["policies"] == {"order": "slo", "plan": "easy:reservations=4", "place": "spread"}


def test_commas_between_parameters_do_not_part_entries():
    assert split("fifo, jct") == ["fifo", "jct"]
    assert split("a+b:x=1,y=2+c,sjf:max_wait_s=5,d") == ["a+b:x=1,y=2+c", "sjf:max_wait_s=5", "d"]


@pytest.mark.parametrize("kind", ["user", "exact", "predict"])
def test_every_kind_of_estimate(trace, kind):
    assert numbers(trace, "--cluster", "1x1", "--estimates", kind)["estimates"]["kind"] == kind


@pytest.mark.parametrize("mode", ["fifo", "fair", "jct", "slo"])
@pytest.mark.parametrize("kind", ["user", "predict"])
def test_jobs_of_which_nothing_is_known_run_all_the_same(tmp_path, mode, kind):
    path = tmp_path / "silent.jsonl"
    path.write_text("\n".join(f'{{"id": "{i}", "gpus": {1 + i % 3}, "run": {10 + i}}}' for i in range(30)))
    data = numbers(path, "--cluster", "1x4", "--estimates", kind, "--mode", mode)
    assert data["results"][0]["ends"] == {"succeeded": 30}


def test_number_of_jobs_without_estimate_is_shown_in_the_singular_for_one(tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_text('{"id": "a", "gpus": 1, "run": 10}\n')
    for words, why in (
        ((), "predict (predictor combined)"),
        (("--estimates", "user"), "user (1 job has no estimate: run time unknown)"),
    ):
        assert f"estimates: {why}" in simulate(path, "--cluster", "1x1", "--mode", "fifo", *words).stdout


@pytest.mark.parametrize("words", [(), ("--mode", "fifo"), ("--order", "las"), ("--compare", "fifo,las+easy+spread")])
def test_default_plans_with_the_predictor_of_the_service(trace, words):
    data = numbers(trace, "--cluster", "1x1", *words)
    assert data["estimates"] == {"kind": "predict", "why": f"predictor {PredictConfig().predictor}"}


def test_default_mode_is_that_of_the_service(trace):
    assert [result["label"] for result in numbers(trace, "--cluster", "1x1")["results"]] == [DEFAULT_MODE]


def test_reference_event_order_plans_with_user_estimates_unless_the_mode_has_a_predictor(trace):
    kinds = [
        numbers(trace, "--cluster", "1x1", "--event-order", "reference", "--mode", mode)["estimates"]["kind"]
        for mode in ("fifo", "standard")
    ]
    assert kinds == ["user", "predict"]


def test_lanes_and_who_may_be_preempted(trace, tmp_path):
    rules = tmp_path / "lanes.toml"
    rules.write_text('[[lanes]]\nname = "all"\n')
    simulate(trace, "--cluster", "1x1", "--lanes", rules, "--preemptible", "all", "--preempt", "order")
    told = problem(trace, "--cluster", "1x1", "--lanes", rules, "--preemptible", "large")
    assert "lane 'large' does not exist" in told


def test_a_card_that_fails_and_comes_back(trace, tmp_path):
    incidents = tmp_path / "incidents.jsonl"
    incidents.write_text('{"at": 50, "card": "n0/0", "ok": false}\n{"at": "100s", "card": "n0/0", "ok": true}\n')
    result = numbers(trace, "--cluster", "1x1", "--incidents", incidents)["results"][0]
    assert (result["makespan_s"], result["restarts"]) == (400, 1)
    for text, words in (
        ('{"at": 1, "card": "n9/0", "ok": true}', "line 1.card: there is no card 'n9/0'"),
        ('\n{"at": 1, "node": "n0"}', "line 2.up: is missing"),
        ('{"at": 1}', "neither a card nor a node"),
        ('{"card": "n0/0", "ok": true}', "line 1.at: is missing"),
        ('{"at": 1, "card": "n0/0", "ok": true, "node": "n0"}', "stands beside card"),
        ("nonsense", "is not JSON"),
    ):
        incidents.write_text(text)
        assert words in problem(trace, "--cluster", "1x1", "--incidents", incidents)


def test_shared_cards_slow_down_by_profiles_or_by_measured_pairs(tmp_path):
    path, pairs = tmp_path / "shared.jsonl", tmp_path / "pairs.json"
    job = '{{"id": "{}", "share": {{"sm": 0.5}}, "profile": {{"utilisation": 1.0}}, "run": 100, "workload": "W"}}'
    path.write_text("\n".join(job.format(name) for name in "ab"))
    pairs.write_text(json.dumps({"v100": {"('W', 1)": {"null": 10.0, "('W', 1)": [8.0, 8.0]}}}))
    by_profile = numbers(path, "--cluster", "1x1")
    by_pairs = numbers(path, "--cluster", "1x1", "--pairs", pairs)
    assert (by_profile["slowed_by"], by_profile["results"][0]["makespan_s"]) == ("the jobs' profiles", 200)
    assert (by_pairs["slowed_by"], by_pairs["results"][0]["makespan_s"]) == ("pairs measured on v100", 125)
    setting = {"gpu": "H200", "driver": "", "sharing": "mps"}
    ratio = {"mean": 0.5, "low": 0.5, "high": 0.5}
    run = {
        "workloads": ["W", "W"],
        "sm_milli": [1000, 1000],
        "ratios": [ratio, ratio],
        "samples": [],
        "out_of_memory": [],
    }
    ours = tmp_path / "ours.json"
    ours.write_text(json.dumps({"format": 1, "setting": setting, "at_us": 0, "solos": [], "co_runs": [run]}))
    measured = numbers(path, "--cluster", "1x1", "--pairs", ours)
    assert (measured["slowed_by"], measured["results"][0]["makespan_s"]) == ("pairs measured on H200", 200)
    assert "nothing was measured on 'k80'" in problem(path, "--cluster", "1x1", "--pairs", pairs, "--pairs-gpu", "k80")


def test_bad_lines_are_named_or_counted(trace):
    trace.write_text(trace.read_text() + '\n{"id": "d", "gpus": -1, "run": 1}\nnonsense\n')
    assert "three.jsonl, line 4: gpus: -1 is below 0" in problem(trace, "--cluster", "1x1")
    data = numbers(trace, "--cluster", "1x1", "--skip-bad")
    assert (data["jobs"], data["skipped_lines"]) == (3, 2)
    shown = simulate(trace, "--cluster", "1x1", "--skip-bad").stdout
    assert "Skipped 2 bad lines" in shown
    assert "line 4: gpus" in shown


def test_what_can_never_run_is_refused_with_its_reason(trace):
    trace.write_text(trace.read_text() + "\n" + JOB.format("huge", 30, 5, 10, 10))
    shown = simulate(trace, "--cluster", "1x1").stdout
    assert "Refused 1 job" in shown
    assert "huge:" in shown


def test_only_the_first_jobs(trace):
    assert numbers(trace, "--cluster", "1x1", "--limit", "2")["results"][0]["makespan_s"] == 200


def test_a_trace_may_bring_its_own_cluster(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text("; MaxNodes: 2\n; MaxProcs: 2\n1 0 0 100 2 -1 -1 2 100 -1 1 1 1 -1 -1 -1 -1 -1\n")
    assert numbers(path)["results"][0]["gpus"] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "error: cluster: is missing (write --cluster"),
        (("--cluster", "2y4"), "cluster: cannot read '2y4'"),
        (("--cluster", "1x1", "--order", "nope"), "order 'nope' does not exist (choose from"),
        (("--cluster", "1x1", "--plan", "easy:backfill=longest"), "'longest' is not one of order, shortest"),
        (("--cluster", "1x1", "--mode", "jtc"), "did you mean 'jct'"),
        (("--cluster", "1x1", "--format", "csv"), "reader 'csv' does not exist"),
        (("--cluster", "1x1", "--compare", "fifo,,jct"), "empty entry"),
        (("--cluster", "1x1", "--compare", "fifo,fifo"), "lists 'fifo' twice"),
        (("--cluster", "1x1", "--compare", "a+b+c+d"), "write order+plan+place"),
        (("--cluster", "1x1", "--estimates", "predict", "--predictor", "nope"), "predictor 'nope' does not exist"),
        (("--cluster", "1x1", "--dump", "f"), "needs both a file and a time"),
        (("--cluster", "1x1", "--dump", "f", "--dump-at", "nan"), "is not a time"),
        (
            ("--cluster", "1x1", "--dump", "f", "--dump-at", "5", "--compare", "fifo,jct"),
            "cannot be combined with --compare",
        ),
        (("--cluster", "1x1", "--report", "."), "is a directory"),
        (("--cluster", "1x1", "--incidents", "none.jsonl"), "there is no file 'none.jsonl'"),
        (("--cluster", "1x1", "--lanes", "none.toml"), "file 'none.toml' does not exist"),
        (("--cluster", "1x1", "--pairs", "none.json"), "cannot read none.json"),
    ],
)
def test_bad_input_is_one_line_that_names_the_cure(trace, arguments, words):
    assert words in problem(trace, *arguments)


def test_a_trace_that_is_not_there_and_one_that_is_none(tmp_path):
    assert "there is no file" in problem(tmp_path / "none", "--cluster", "1x1")
    (tmp_path / "text").write_text("hello")
    assert "cannot tell the format of text" in problem(tmp_path / "text", "--cluster", "1x1")


@pytest.mark.parametrize("by", ["profiles", "pairs"])
@pytest.mark.parametrize("at_s", [15, 1500, 4740])
def test_a_snapshot_replays_to_what_the_run_decided(sample, tmp_path, by, at_s):
    snapshot, jobs, pairs = tmp_path / "snapshot.json", tmp_path / "jobs.csv", tmp_path / "pairs.json"
    pairs.write_text(json.dumps({"v100": {"('W', 1)": {"null": 10.0, "('W', 1)": [8.0, 8.0]}}}))
    slowed = ("--pairs", pairs) if by == "pairs" else ()
    where = ("--cluster", "2x4", "--mode", "fifo")
    simulate(sample, *where, "--dump", snapshot, "--dump-at", at_s, "--jobs-out", jobs, *slowed)
    replayed = json.loads(run("replay", snapshot, "--json").stdout)
    rows = [row for row in csv.DictReader(jobs.open()) if row["started_s"] == str(replayed["at_s"]).removesuffix(".0")]
    started = {row["job_id"]: row["cards"].split() for row in rows}
    decided = {one["job_id"]: one["cards"] for one in replayed["decisions"] if one["what"] == "start"}
    assert replayed["at_s"] >= at_s
    # The run decides again at the same instant when a start slows neighbours; the snapshot is of the first cycle.
    assert decided.items() <= started.items()
    assert decided


def test_a_replay_for_people(sample, tmp_path):
    snapshot = tmp_path / "snapshot.json"
    simulate(sample, "--cluster", "2x4", "--dump", snapshot, "--dump-at", "1500")
    shown = run("replay", snapshot).stdout
    assert "Decisions" in shown
    assert "pretrain-1" in shown


def test_a_snapshot_of_a_time_that_never_comes(trace, tmp_path):
    words = problem(trace, "--cluster", "1x1", "--dump", tmp_path / "s.json", "--dump-at", "1e6")
    assert "is after the last decision" in words


@pytest.mark.parametrize("content", [None, "nonsense", "[1]", '{"version": 99}', '{"version": 1}'])
def test_what_is_no_snapshot(tmp_path, content):
    path = tmp_path / "snapshot.json"
    if content is not None:
        path.write_text(content)
    result = run("replay", path, code=2)
    assert result.stderr.startswith("error: snapshot")
