"""The chart's files agree with each other, with the code and with the guide. No cluster is needed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

import gpusquad

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "deploy" / "helm" / "gpusquad"
GUIDE = REPOSITORY / "docs" / "guide" / "kubernetes.md"
DEPRECATED = {"agent.sharing.strangers"}
"""Old names that the chart still accepts; values.yaml does not list them."""
FREE = {"resources", "nodeSelector", "tolerations", "affinity", "annotations", "podAnnotations", "labels"}
"""Kubernetes' own business below these."""


def values() -> dict[str, Any]:
    return yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))


def paths(tree: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict) and value and name not in FREE:
            yield from paths(value, f"{before}{name}.")
        else:
            yield before + name


def schema_paths(tree: Mapping[str, Any], known: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in tree["properties"].items():
        reference = value.get("$ref", "").rpartition("/")[2]
        found = known[reference] if reference else value
        if "properties" in found and name not in FREE:
            yield from schema_paths(found, known, f"{before}{name}.")
        else:
            yield before + name


def test_the_chart_is_of_the_same_version_as_the_code():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == gpusquad.__version__


def test_the_schema_knows_every_value_and_no_other():
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    known = set(schema_paths(schema, schema["definitions"]))
    assert known >= DEPRECATED
    assert known - DEPRECATED - {"global"} == set(paths(values()))


def test_the_guide_tells_every_value_and_no_other():
    section = GUIDE.read_text("utf-8").partition("\n## Values\n")[2]
    table = set(re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE))
    assert table == set(paths(values()))


def test_every_value_is_used():
    text = "".join(file.read_text("utf-8") for file in (CHART / "templates").iterdir())
    unused = [
        path for path in paths(values()) if not re.search(rf"(Values|\$agent)\.(\w+\.)*{path.split('.')[-1]}\b", text)
    ]
    assert [path for path in unused if not path.startswith("store.passwordSecret")] == []


def test_nothing_of_ours_can_take_a_pod_of_a_user_with_it():
    for file in (CHART / "templates").iterdir():
        text = file.read_text("utf-8")
        assert "finalizers" not in text
        assert "ownerReferences" not in text
        assert "helm.sh/hook" not in text
