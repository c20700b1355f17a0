"""A tenant of a rehearsal: ``python -m tests.bench.card.rehearsal_tenant NAME``."""

from __future__ import annotations

import sys

import tests.bench.card.rehearsal  # noqa: F401  # its workloads
from bench.card.tenant import serve_as
from tests.bench.card.fake_tenant import Fake

if __name__ == "__main__":
    serve_as(Fake(sys.argv[1], "cpu", None))
