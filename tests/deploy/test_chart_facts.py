"""Tests that the chart's files agree with each other, with the code and with the guide. No cluster is needed."""

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
DEPRECATED = {"agent.sharing.strangers", "telling.perSecond", "telling.everySeconds", "telling.scheduled"}
"""Old names that the chart still accepts; values.yaml does not list them."""
PASSED_THROUGH = {"resources", "nodeSelector", "tolerations", "affinity", "annotations", "podAnnotations", "labels"}
"""Values that are passed to Kubernetes unchanged."""


def values() -> dict[str, Any]:
    return yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))


def paths(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict) and value and name not in PASSED_THROUGH:
            yield from paths(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def schema_paths(tree: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in tree["properties"].items():
        reference = value.get("$ref", "").rpartition("/")[2]
        found = definitions[reference] if reference else value
        if "properties" in found and name not in PASSED_THROUGH:
            yield from schema_paths(found, definitions, f"{prefix}{name}.")
        else:
            yield prefix + name


def test_chart_has_the_version_of_the_code():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == gpusquad.__version__


def test_schema_lists_exactly_the_values():
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    known = set(schema_paths(schema, schema["definitions"]))
    assert known >= DEPRECATED
    assert known - DEPRECATED - {"global"} == set(paths(values()))


def test_guide_lists_exactly_the_values():
    section = GUIDE.read_text("utf-8").partition("\n## Values\n")[2]
    table = set(re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE))
    assert table == set(paths(values()))


def test_every_value_is_used_in_a_template():
    text = "".join(file.read_text("utf-8") for file in (CHART / "templates").iterdir())
    unused = [
        path
        for path in paths(values())
        if not re.search(rf"(Values|\$agent)\.(\w+\)?\.)*{path.split('.')[-1]}\b", text)
    ]
    assert [path for path in unused if not path.startswith("store.passwordSecret")] == []


def test_templates_have_no_finalizers_owners_or_hooks():
    for file in (CHART / "templates").iterdir():
        text = file.read_text("utf-8")
        assert "finalizers" not in text
        assert "ownerReferences" not in text
        assert "helm.sh/hook" not in text
