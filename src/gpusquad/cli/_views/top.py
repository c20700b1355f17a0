"""Cards and jobs on one page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gpusquad.cli._sanitize import one_line
from gpusquad.cli._views.node import cards_table
from gpusquad.cli._views.queue import queue_view
from gpusquad.cli._views.status import gangs, gpus


def top_view(overview: Mapping[str, Any], now_s: float, width: int) -> RenderableType:
    return Group(
        summary(overview["cluster"]),
        Text(),
        cards_table(overview["nodes"], width),
        Text(),
        queue_view(overview["queue"], now_s, width),
    )


def summary(cluster: Mapping[str, Any]) -> Text:
    """``GPUs 32: 11 free · 5 × 2 GPUs fit on one node · mode predictive``."""
    parts = (f"GPUs {gpus(cluster)}", gangs(cluster), f"mode {one_line(cluster['mode'])}")
    return Text(" · ".join(parts), style="bold")
