"""Tests of values with a deprecated name: the chart accepts them, and they mean the same as the new ones."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from gpusquad.app.config import Config
from tests.kube.chart import Release, of_kind


def _kubernetes_settings(release: Release, values: dict[str, Any]) -> dict[str, Any]:
    text = of_kind(release.render(values), "ConfigMap")["data"]["config.toml"]
    settings = Config.model_validate(tomllib.loads(text)).kubernetes
    return settings.model_dump(include={"status_writes_per_s", "status_repeat_s", "scheduled_event"})


@pytest.mark.parametrize(
    "values",
    [
        {"podStatus": {"writesPerSecond": 0, "repeatSeconds": 2.5, "scheduledEvent": "pod"}},
        {"telling": {"perSecond": 0, "everySeconds": 2.5, "scheduled": "pod"}},
        {"telling": {"perSecond": 0, "everySeconds": 2.5}, "podStatus": {"scheduledEvent": "pod"}},
        # Values of an older release that an upgrade with --reuse-values keeps.
        {"telling": {"perSecond": 0, "everySeconds": 2.5, "scheduled": "pod"}, "podStatus": None},
    ],
    ids=str,
)
def test_status_settings_reach_the_server_under_both_names(release: Release, values: dict[str, Any]):
    assert _kubernetes_settings(release, values) == {
        "status_writes_per_s": 0.0, "status_repeat_s": 2.5, "scheduled_event": "pod",
    }  # fmt: skip


@pytest.mark.parametrize("values", [{}, {"telling": None}, {"telling": {}}, {"telling": {"perSecond": None}}], ids=str)
def test_status_settings_have_their_defaults_when_the_deprecated_names_are_empty(
    release: Release, values: dict[str, Any]
):
    assert _kubernetes_settings(release, values) == Config().kubernetes.model_dump(
        include={"status_writes_per_s", "status_repeat_s", "scheduled_event"}
    )
