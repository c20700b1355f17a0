"""Grafana board and Prometheus rules: they use only exported series."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from gpusquad.app.config import ServerConfig
from gpusquad.cli._verbs import verbs
from tests.server.exposition import families, used_meters

# Series and labels that Prometheus adds itself.
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
    """Labels of each exported series, by name."""
    found: dict[str, set[str]] = dict(FROM_PROMETHEUS)
    for samples in families(used_meters()).values():
        for sample in samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def panels(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def expressions(board):
    return [target["expr"] for panel in panels(board) for target in panel["targets"]]


def without_variables(expression):
    """Replace Grafana's variables, as Prometheus gets the expression."""
    return re.sub(r"\$\w+", "x", expression.replace("$__rate_interval", "5m"))


def names_and_labels(expression):
    """Return the series that an expression reads and the labels that it uses."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', without_variables(expression))
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


def test_names_and_labels_of_an_expression_are_found():
    expression = (
        'histogram_quantile(0.5, sum by (le, a) (rate(x_bucket{b=~"y|z"}[$__rate_interval]))) > bool 1e6 and up == 0'
    )
    assert names_and_labels(expression) == ({"x_bucket", "up"}, {"le", "a", "b"})


def test_board_reads_only_exported_series(board, exported):
    for expression in expressions(board):
        check(expression, exported)


def test_legends_use_existing_labels(board, exported):
    for panel in panels(board):
        for target in panel["targets"]:
            names, labels = names_and_labels(target["expr"])
            grouped = re.search(r"\bby\s*\(", target["expr"]) is not None
            available = labels if grouped else set().union(*(exported[name] for name in names)) | ADDED_LABELS
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= available, panel["title"]


def test_board_shows_all_exported_series(board, exported):
    shown = set().union(*(names_and_labels(expression)[0] for expression in expressions(board)))
    ours = {
        re.sub(r"_(bucket|sum|count)$", "_bucket", name) for name in exported if name.startswith(("gpusquad_", "DCGM_"))
    }
    assert ours - shown <= {"gpusquad_build_info", "gpusquad_snapshot_up"}


def test_variables_query_labels_of_their_series(board, exported):
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()
            assert label in exported[name]
    known = {variable["name"] for variable in board["templating"]["list"]} | {"__rate_interval"}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(board))) <= known | {"__all"}


def test_board_has_a_valid_form(board):
    assert board["schemaVersion"] >= 38
    assert board["uid"] == board["title"] == "gpusquad"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels(board):
        assert panel["description"].endswith("."), panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${source}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_panels_do_not_overlap(board):
    taken = set()
    for panel in board["panels"]:
        position = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(position["x"], position["x"] + position["w"])
            for y in range(position["y"], position["y"] + position["h"])
        }
        assert all(x < 24 for x, _ in cells), panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


def test_alerts_read_only_exported_series(rules, exported):
    for rule in rules:
        check(rule["expr"], exported)


def test_alerts_have_severity_summary_and_known_commands(rules):
    assert {rule["alert"] for rule in rules} >= {
        "GpusquadNoCycle", "GpusquadCardCordoned", "GpusquadIdleWhileJobsWait", "GpusquadNoticesDead"
    }  # fmt: skip
    for rule in rules:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}
        named = set(re.findall(r"\bgpusquad ([a-z]+) (?:names|tells|shows|[A-Z])", rule["annotations"]["description"]))
        assert named <= set(verbs()), rule["alert"]


def test_prometheus_scrapes_the_default_address_of_the_service(repository):
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


def test_promtool_accepts_the_configuration_and_the_rules(promtool, repository):
    run(promtool, "check", "config", repository / "deploy/prometheus/prometheus.yml")
    run(promtool, "check", "rules", "--lint-fatal", repository / "deploy/prometheus/gpusquad.rules.yml")


def test_promtool_accepts_every_expression_of_the_board(promtool, board, tmp_path):
    rules = [
        {"record": f"board:{number}", "expr": without_variables(text)} for number, text in enumerate(expressions(board))
    ]
    file = tmp_path / "board.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    run(promtool, "check", "rules", file)


def test_alerts_fire_exactly_under_their_conditions(promtool, repository, tmp_path):
    rules = repository / "deploy/prometheus/gpusquad.rules.yml"
    busy = [
        {"series": 'gpusquad_gpus{state="free"}', "values": "4x60"},
        {"series": 'gpusquad_gpus{state="cordoned"}', "values": "0x60"},
        {"series": 'gpusquad_oldest_pending_seconds{tenant="a"}', "values": "0+60x60"},
        {"series": 'gpusquad_notices_total{state="dead"}', "values": "0x30 1x30"},
        {"series": "gpusquad_last_cycle_timestamp_seconds", "values": "0+60x40 2400x20"},
    ]

    def expected_at(minute, alert, *fires):
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
                expected_at(25, "GpusquadIdleWhileJobsWait"),
                expected_at(40, "GpusquadIdleWhileJobsWait", "4"),
                expected_at(25, "GpusquadNoticesDead"),
                expected_at(40, "GpusquadNoticesDead", ""),
                expected_at(40, "GpusquadNoCycle"),
                expected_at(50, "GpusquadNoCycle", "10m 0s"),
                expected_at(50, "GpusquadCardCordoned"),
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
