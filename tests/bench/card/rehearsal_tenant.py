"""Client of a rehearsal: ``python -m tests.bench.card.rehearsal_tenant NAME``."""

from __future__ import annotations

import sys

import tests.bench.card.rehearsal  # noqa: F401  # registers its workloads
from bench.card.tenant import serve_as
from tests.bench.card.fake_tenant import FakeTenant

if __name__ == "__main__":
    serve_as(FakeTenant(sys.argv[1], "cpu", None))
