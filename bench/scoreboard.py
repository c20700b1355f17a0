"""Finds the benches, runs them and keeps the score."""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import sys
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import bench


def benches() -> dict[str, ModuleType]:
    """All of them by name."""
    found = {}
    for info in pkgutil.iter_modules(bench.__path__):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"bench.{info.name}")
        if hasattr(module, "NAME"):
            found[module.NAME] = module
    return dict(sorted(found.items()))


def needs_gpu(module: ModuleType) -> bool:
    return getattr(module, "NEEDS_GPU", False)


def is_quick(module: ModuleType) -> bool:
    """Runs anywhere within minutes."""
    return not needs_gpu(module) and not getattr(module, "SLOW", False)


def score(modules: Iterable[ModuleType]) -> dict:
    """Run benches one after another. A bench that fails becomes a claim that does not hold, and the others still
    run."""
    claims, took_s = [], {}
    for module in modules:
        print(f"{module.NAME}: {module.SUMMARY} ...", file=sys.stderr, flush=True)
        began = time.perf_counter()
        claims += [{"bench": module.NAME, **claim} for claim in _claims(module)]
        took_s[module.NAME] = round(time.perf_counter() - began, 1)
    return {"claims": claims, "took_s": took_s, "machine": machine()}


def holds(claim: dict) -> bool:
    """A claim without a bar is only reported."""
    return claim["ok"] is not False


def machine() -> dict:
    """Machine on which the figures were measured."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def _claims(module: ModuleType) -> list[dict]:
    try:
        return module.run()
    except Exception as error:
        traceback.print_exc()
        problem = f"did not run: {type(error).__name__}: {error}"
        return [{"name": problem, "value": None, "unit": "", "better": "", "bar": None, "baseline": None, "ok": False}]


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
