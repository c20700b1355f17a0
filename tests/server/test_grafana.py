import json
import re
import shutil
import subprocess

import pytest
import yaml

from gpusquad.app.config import ServerConfig
from gpusquad.cli._verbs import verbs
from tests.server.exposition import families, used_meters

# What Prometheus itself adds to every series.
FROM_PROMETHEUS = {"up": set()}
ADDED_LABELS = {"job", "instance", "le"}
KEYWORDS = {"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "group_left", "group_right"}


@pytest.fixture(scope="module")
def board(repository):
    return json.loads((repository / "deploy/grafana/gpusquad.json").read_text())


@pytest.fixture(scope="module")
def rules(repository):
    groups = yaml.safe_load((repository / "deploy/prometheus/gpusquad.rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def exported():
    """Name of a series: its labels."""
    found: dict[str, set[str]] = dict(FROM_PROMETHEUS)
    for samples in families(used_meters()).values():
        for sample in samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def panels(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def expressions(board):
    return [target["expr"] for panel in panels(board) for target in panel["targets"]]


def plain(expression):
    """With Grafana's variables filled in, as Prometheus gets it."""
    return re.sub(r"\$\w+", "x", expression.replace("$__rate_interval", "5m"))


def names_and_labels(expression):
    """The series an expression reads, and the labels it relies on."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', plain(expression))
    labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"\"", text))
    for clause in re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", text):
        labels |= set(re.findall(r"\w+", clause))
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(?:by|without|on|ignoring)\s*\([^)]*\)", " ", text)
    names = set(re.findall(r"\b([A-Za-z_][\w:]*)\b(?!\s*\()", text)) - KEYWORDS
    return names, labels


def check(expression, exported):
    names, labels = names_and_labels(expression)
    assert names, expression
    assert names <= set(exported), expression
    assert labels <= set().union(*(exported[name] for name in names)) | ADDED_LABELS, expression


def test_what_an_expression_reads():
    expression = (
        'histogram_quantile(0.5, sum by (le, a) (rate(x_bucket{b=~"y|z"}[$__rate_interval]))) > bool 1e6 and up == 0'
    )
    assert names_and_labels(expression) == ({"x_bucket", "up"}, {"le", "a", "b"})


def test_the_board_reads_only_what_we_export(board, exported):
    for expression in expressions(board):
        check(expression, exported)


def test_legends_name_labels_that_are_there(board, exported):
    for panel in panels(board):
        for target in panel["targets"]:
            names, labels = names_and_labels(target["expr"])
            grouped = re.search(r"\bby\s*\(", target["expr"]) is not None
            there = labels if grouped else set().union(*(exported[name] for name in names)) | ADDED_LABELS
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= there, panel["title"]


def test_the_board_shows_all_we_count(board, exported):
    shown = set().union(*(names_and_labels(expression)[0] for expression in expressions(board)))
    ours = {
        re.sub(r"_(bucket|sum|count)$", "_bucket", name) for name in exported if name.startswith(("gpusquad_", "DCGM_"))
    }
    assert ours - shown <= {"gpusquad_build_info", "gpusquad_snapshot_up"}


def test_variables_are_asked_of_series_that_have_them(board, exported):
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()
            assert label in exported[name]
    known = {variable["name"] for variable in board["templating"]["list"]} | {"__rate_interval"}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(board))) <= known | {"__all"}


def test_the_board_is_one_that_grafana_takes(board):
    assert board["schemaVersion"] >= 38
    assert board["uid"] == board["title"] == "gpusquad"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels(board):
        assert panel["description"].endswith("."), panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${source}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_panels_do_not_lie_over_each_other(board):
    taken = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert all(x < 24 for x, _ in cells), panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


def test_alerts_read_only_what_we_export(rules, exported):
    for rule in rules:
        check(rule["expr"], exported)


def test_alerts_say_what_happened_and_what_to_do(rules):
    assert {rule["alert"] for rule in rules} >= {
        "GpusquadNoCycle", "GpusquadCardCordoned", "GpusquadIdleWhileJobsWait", "GpusquadNoticesDead"
    }  # fmt: skip
    for rule in rules:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}
        named = set(re.findall(r"\bgpusquad ([a-z]+) (?:names|tells|shows|[A-Z])", rule["annotations"]["description"]))
        assert named <= set(verbs()), rule["alert"]


def test_prometheus_looks_where_the_service_is(repository):
    config = yaml.safe_load((repository / "deploy/prometheus/prometheus.yml").read_text())
    (scrape,) = config["scrape_configs"]
    server = ServerConfig()
    assert scrape["static_configs"] == [{"targets": [f"{server.host}:{server.port}"]}]


@pytest.fixture(scope="module")
def promtool():
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    return found


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_configuration_and_the_rules(promtool, repository):
    run(promtool, "check", "config", repository / "deploy/prometheus/prometheus.yml")
    run(promtool, "check", "rules", "--lint-fatal", repository / "deploy/prometheus/gpusquad.rules.yml")


def test_prometheus_understands_every_expression_of_the_board(promtool, board, tmp_path):
    rules = [{"record": f"board:{number}", "expr": plain(text)} for number, text in enumerate(expressions(board))]
    file = tmp_path / "board.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    run(promtool, "check", "rules", file)


def test_alerts_fire_when_they_should_and_only_then(promtool, repository, tmp_path):
    rules = repository / "deploy/prometheus/gpusquad.rules.yml"
    busy = [
        {"series": 'gpusquad_gpus{state="free"}', "values": "4x60"},
        {"series": 'gpusquad_gpus{state="cordoned"}', "values": "0x60"},
        {"series": 'gpusquad_oldest_pending_seconds{tenant="a"}', "values": "0+60x60"},
        {"series": 'gpusquad_notices_total{state="dead"}', "values": "0x30 1x30"},
        {"series": "gpusquad_last_cycle_timestamp_seconds", "values": "0+60x40 2400x20"},
    ]

    def when(minute, alert, *fires):
        return {
            "eval_time": f"{minute}m",
            "alertname": alert,
            "exp_alerts": [_alert(rules, alert, text) for text in fires],
        }

    tests = [
        {
            "interval": "1m",
            "input_series": busy,
            "alert_rule_test": [
                when(25, "GpusquadIdleWhileJobsWait"),
                when(40, "GpusquadIdleWhileJobsWait", "4"),
                when(25, "GpusquadNoticesDead"),
                when(40, "GpusquadNoticesDead", ""),
                when(40, "GpusquadNoCycle"),
                when(50, "GpusquadNoCycle", "10m 0s"),
                when(50, "GpusquadCardCordoned"),
            ],
        }
    ]
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    run(promtool, "test", "rules", file)


def _alert(rules, name, value):
    for rule in yaml.safe_load(rules.read_text())["groups"][0]["rules"]:
        if rule["alert"] == name:
            summary = re.sub(r"\{\{ \$value[^}]*\}\}", value, rule["annotations"]["summary"])
            return {"exp_labels": rule["labels"], "exp_annotations": rule["annotations"] | {"summary": summary}}
    raise KeyError(name)
