"""Parts of all report pages: one file, no network, no script but its own."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import Any

from gpusquad.model.errors import Invalid


def plotly_js(asked_by: str) -> str:
    """``asked_by``: the option or field that an error names."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise Invalid(asked_by, "needs plotly, which is not installed", "pip install 'gpusquad[report]'") from error
    return get_plotlyjs()


def packaged(name: str) -> str:
    return resources.files("gpusquad.sim.report").joinpath(name).read_text(encoding="utf-8")


def security_policy(*scripts: str) -> str:
    """No network and no script but these. Escaping is the first line of defence, this policy the second."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"


def as_script_data(value: Any) -> str:
    """JSON that cannot end the script element that contains it."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
