"""What the API foretells: how good its predictions were, and what a job should ask for."""

from __future__ import annotations

from typing import Any

from tests.canned.jobs import HOSTILE, job_id
from tests.canned.units import DAY_S, GIB

WAITS = {
    "count": 80, "within_10min": 0.71, "within_factor_2": 0.62, "within_p50": 0.55, "within_p90": 0.88,
    "median_error_s": 240.0, "median_wait_s": 1500.0,
}  # fmt: skip


def predictions(now_s: float) -> dict[str, Any]:
    judged = {
        "count": 120, "cut": 7, "median_ratio": 0.14, "mean_error_s": 340.0, "within_p50": 0.48, "within_p90": 0.91,
        "within_p99": 0.99, "pinball_s": 90.0, "bias": 0.05,
    }  # fmt: skip
    unjudged = dict.fromkeys(judged) | {"count": 0, "cut": 3}
    return {
        "since_s": now_s - 30 * DAY_S, "count": 130, "tenants": [{"key": "vision"} | judged],
        "sources": [{"key": "history"} | judged, {"key": HOSTILE} | unjudged],
        "calibration": [{"source": "history", "level": level, "observed": level - 0.01, "count": 120}
                        for level in (0.1, 0.5, 0.9)],
        "points": [{"source": "history", "predicted_s": 60.0 * n, "truth_s": 66.0 * n} for n in range(5)],
        "starts": starts(now_s),
        "waits": {"total": WAITS | {"key": ""}, "tenants": [WAITS | {"key": "vision"}]},
    }  # fmt: skip


def starts(now_s: float) -> dict[str, Any]:
    """Promised starts: one was late for a guest of the same tenant, one for a job that the asker may not see."""
    late = {"tenant": "vision", "user": "ana", "promised_s": now_s - 7200.0}
    hidden = dict.fromkeys(("cause_job", "cause_user", "cause_tenant"))
    return {
        "count": 40, "kept": 38, "late": 2, "median_s": 450.0, "worst_s": 600.0,
        "causes": [{"cause": "ahead_overran", "count": 1, "median_s": 300.0, "worst_s": 300.0},
                   {"cause": "guest_overstayed", "count": 1, "median_s": 600.0, "worst_s": 600.0}],
        "latest": [
            late | {"job": job_id(3), "name": HOSTILE, "started_s": now_s - 6600.0, "late_s": 600.0,
                    "head_delay_s": 540.0, "cause": "guest_overstayed", "cause_job": job_id(5), "cause_user": "bo",
                    "cause_tenant": "vision"},
            late | {"job": job_id(4), "name": "sweep", "started_s": now_s - 6900.0, "late_s": 300.0,
                    "head_delay_s": None, "cause": "ahead_overran"} | hidden,
        ],
        "heads": {"count": 25, "delayed": 1, "median_s": 540.0, "worst_s": 540.0},
    }  # fmt: skip


def recommendation() -> dict[str, Any]:
    """Users ask for eight where two would do."""
    why = "6 of the 8 cards were idle in the last 3 runs"
    peak = "peak 9.8 GiB median, 11 GiB P90 (12 runs of resnet50 by ana)"
    times = [(1, 7200.0, 1.0, "history"), (2, 4000.0, 0.9, "history"), (4, 2600.0, 0.69, "default"),
             (8, 2400.0, 0.375, "history")]  # fmt: skip
    return {
        "advice": [
            {"field": "gpus", "value": 2, "now": 8, "change": True, "why": why},
            {"field": "gpu_memory", "value": "12GiB", "now": None, "change": False, "why": peak},
        ],
        "times": [
            {"gpus": gpus, "low_s": 0.8 * mid_s, "mid_s": mid_s, "high_s": 1.2 * mid_s, "efficiency_ratio": ratio,
             "source": source, "confidence": 0.5}
            for gpus, mid_s, ratio, source in times
        ],
        "memory": {"mid_bytes": 10 * GIB, "high_bytes": 11 * GIB, "source": "history", "confidence": 0.8},
        "evidence": {"runs": 12, "of": "runs of resnet50 by ana", "jobs": [job_id(8), job_id(9)],
                     "uses": [{"job": job_id(8), "busy_ratios": [0.9, 0.8, 0, 0, 0, 0, 0, 0]}]},
        "notes": ["it is what it is"], "warnings": [], "missing": [], "jobs": 1,
    }  # fmt: skip
