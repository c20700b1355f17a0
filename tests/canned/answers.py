"""What the API answers to each question, of one small cluster."""

from __future__ import annotations

from typing import Any

from tests.canned.cards import all_nodes, divided, division, sample, window
from tests.canned.forecasts import predictions, recommendation
from tests.canned.jobs import (
    HOSTILE,
    NO_BLOCK,
    RECORD,
    as_job,
    job,
    job_id,
    on_cards,
    progress,
    queued,
    reasons,
    run_time,
    story,
)
from tests.canned.people import inbox_entry, rule, tenant, token, user
from tests.canned.units import DAY_S, HOUR_S, MINUTE_S

UNNOTED = {"chosen": [], "warnings": []}

REQUESTS = {
    "auto": [
        {"field": "cpu", "value": 4, "amount": 4.0, "source": "history", "why": "3.1 cores used at most", "used": 2.9},
        {"field": "memory", "value": None, "amount": None, "source": "default", "why": "no data", "used": None},
    ],
    "estimator": {"state": "done", "command": "python3 estimate.py", "fields": {"run": "2h"}, "warning": "",
                  "took_s": 1.5, "cached": False},
    "used": {"attempt": 0, "gpus": None, "gpu_memory": 3 << 30, "cpu": 2.9, "memory": 5 << 30},
    "slo": {"deadline_s": None, "latency_s": 0.02, "throughput": 100.0, "availability": 0.999, "deadline_met": None,
            "attainment_ratio": 0.97, "unknown": False},
    "estimate_s": None, "limit_s": 4.0 * HOUR_S, "held_s": None, "hang_warnings": [],
}  # fmt: skip


def canned(now_s: float) -> dict[tuple[str, str], Any]:
    runs = [
        job(now_s, 1, "vgg16-imagenet", "running", gpus=4, progress=progress(now_s, 0.62),
            placement=[{"task": 0, "node": "n0", "cards": ["n0/0", "n0/1", "n0/2", "n0/3"]}]),
        job(now_s, 2, "bert-pretraining-of-a-long-name", "running", user="bo", tenant="nlp", gpus=16, tasks=2,
            started_s=now_s - 26 * HOUR_S, forecast=run_time(30 * HOUR_S, 36 * HOUR_S, "user"),
            placement=[{"task": t, "node": f"n{t + 1}", "cards": [f"n{t + 1}/{c}" for c in range(8)]} for t in (0, 1)]),
        job(now_s, 3, "serve", "starting", gpus=1, started_s=now_s - 4, forecast=None),
    ]  # fmt: skip
    waits = [
        queued(now_s, 4, "llama-finetune", 1, 12, NO_BLOCK, gpus=8, promised_s=now_s + 1200),
        queued(now_s, 5, "sweep-lr-0.1", 2, 47, ("behind", "number 2 in line, behind llama-finetune"), gpus=1,
               user="bo"),
        queued(now_s, 6, HOSTILE, 3, None, ("tenant_limit", "tenant vision holds 8 of at most 8 GPUs"), gpus=2),
    ]  # fmt: skip
    one = waits[0]
    ended = [
        job(now_s, 7, "resnet", "succeeded", started_s=now_s - 5 * HOUR_S, ended_s=now_s - HOUR_S,
            submitted_s=now_s - 6 * HOUR_S),
        job(now_s, 8, "diverged", "failed", started_s=now_s - 30 * HOUR_S, ended_s=now_s - 29 * HOUR_S, tasks=4,
            submitted_s=now_s - 31 * HOUR_S, cause="task 3 ended with exit code 137",
            result={"task": 3, "exit_code": None, "signal": 9, "oom": True}),
        job(now_s, 9, "typo", "cancelled", ended_s=now_s - 60, submitted_s=now_s - 90, cause="cancelled by ana"),
    ]  # fmt: skip
    when = {
        "state": "pending", "start_s": now_s + 12 * MINUTE_S, "high_s": now_s + 40 * MINUTE_S,
        "promised_s": now_s + 45 * MINUTE_S, "run": run_time(5400.0, 9000.0, "history"),
        "run_record": RECORD, "end": None,
        "position": 1,
        "accuracy": {"count": 134, "within_ratio": 0.91, "median_error_s": 130.0, "median_late_s": -120.0},
    }  # fmt: skip
    policy = {
        "revision": 7, "mode": "predictive", "order": "sjf", "plan": "easy:backfill=shortest", "place": "binpack",
        "divide": "jct",
        "preemption": {"by": "priority", "min_run_s": 600.0, "most_per_job": 3, "overstay": "checkpointed"},
        "lanes": [
            {"name": "large", "min_gpus": 8, "max_gpus": None, "tenants": [], "priorities": [], "preemptible": True,
             "max_lost_s": 300.0, "limit_ratio": 1.0},
            {"name": "small", "min_gpus": 0, "max_gpus": None, "tenants": [], "priorities": [], "preemptible": True,
             "max_lost_s": None, "limit_ratio": 0.5},
        ],
        "automatic": None, "modes": ["fifo", "fair", "predictive"],
        "since_s": now_s - DAY_S, "by": "root", "note": "after the review",
    }  # fmt: skip
    return {
        ("GET", "/jobs"): {"items": [as_job(view) for view in (*runs, *waits, *ended)], "next": None},
        ("POST", "/jobs"): {"group": None, "jobs": [as_job(one)], **UNNOTED},
        **{("GET", f"/jobs/{view['id']}"): as_job(view) | REQUESTS | {"run_record": RECORD}
           for view in (*runs, *waits, *ended)},
        ("GET", "/jobs/llama-finetune"): as_job(one) | REQUESTS | {"run_record": None},
        ("GET", "/pods/vision/llama-finetune-0/job"): as_job(one),
        ("PATCH", "/jobs/llama-finetune"): as_job(one) | {"priority": "high", "memory": None},
        ("POST", "/jobs/llama-finetune/cancel"): as_job(one) | {"state": "cancelled", "ended_s": now_s},
        ("POST", "/jobs/llama-finetune/hold"): as_job(one) | {"state": "held"},
        ("POST", "/jobs/llama-finetune/release"): as_job(one),
        ("POST", "/jobs/llama-finetune/resubmit"): {
            "group": None, "jobs": [as_job(one) | {"id": job_id(10)}], **UNNOTED,
        },
        ("GET", "/jobs/llama-finetune/why"): {"state": "pending", "position": 1, "reasons": reasons(),
            "passed": [{"job": "01hzx7k2m9qd3w5r8t1v4y6a0c", "user": "ada", "tenant": "vision", "running": True,
                        "by": "priority", "value": "urgent", "granted": "granted to tenant vision by an administrator",
                        "message": "01hzx7k2m9qd3w5r8t1v4y6a0c of ada (tenant vision), submitted later, started first "
                        "by priority urgent, granted to tenant vision by an administrator"}],
            "hang_warnings": []},
        ("GET", "/jobs/llama-finetune/when"): when,
        ("GET", f"/jobs/{one['id']}/when"): when,
        ("GET", f"/jobs/{one['id']}/why"): {"state": "pending", "position": 1, "reasons": reasons(), "passed": [],
                                              "hang_warnings": []},
        ("GET", "/jobs/llama-finetune/source"): {"spec": {"command": ["python", "train.py"], "gpus": 8}},
        ("GET", "/jobs/llama-finetune/story"): {"items": story(now_s), "next": None},
        ("GET", "/jobs/llama-finetune/logs"): {
            "task": 0, "attempt": 0, "offset": 0, "next": 22, "text": "step 1\nstep 2\nhalf a l", "end": True,
        },
        ("POST", "/whatif"): {
            "refused": None, "starts_now": False, "placement": [], "delayed": [{"job": job_id(5), "by_s": 900.0}],
            "preempted": [], "others": 2, "jobs": 1, "reasons": reasons(), **UNNOTED,
            **{k: when[k] for k in ("start_s", "high_s", "promised_s", "run")},
        },
        ("POST", "/recommend"): recommendation(),
        ("GET", "/queue"): {
            "items": waits, "running": [on_cards(view) for view in runs], "next": None, "held": [],
            "counts": {"pending": 3, "running": 2, "starting": 1, "held": 1},
        },
        ("GET", "/nodes"): {"items": all_nodes(now_s), "next": None},
        ("GET", "/cluster"): {
            "gpus": 32, "free": 11, "usable": {"1": 11, "2": 5, "4": 2, "8": 0}, "unhealthy": 1, "taken_outside": 1,
            "simulated": False, "mode": "predictive",
        },
        ("POST", "/nodes/n1/drain"): {"ok": True}, ("POST", "/nodes/n1/undrain"): {"ok": True},
        ("POST", "/cards/n0%2F3/cordon"): {"ok": True}, ("POST", "/cards/n0%2F3/uncordon"): {"ok": True},
        ("GET", "/cards"): {"items": [division(now_s, 0), division(now_s, 1, "jct", own=False)], "next": None},
        ("GET", "/cards/n0%2F0"): division(now_s, 0) | {"now": divided()},
        ("GET", "/cards/0"): division(now_s, 0) | {"now": divided()},
        ("GET", "/cards/n0%2F1"): division(now_s, 1, "jct", own=False) | {"now": None},
        **{("PUT", f"/cards/{card}/divide"): division(now_s, at)
           for card, at in (("0", 0), ("n0%2F0", 0), ("n0%2F1", 1))},
        ("GET", "/cards/0/divide/revisions"): {"items": [
            {"revision": 3, "at_s": now_s - 60, "by": "root", "card": "n0/0", "policy": "slo", "note": HOSTILE},
            {"revision": 2, "at_s": now_s - 90, "by": "root", "card": "n0/0", "policy": None, "note": ""},
        ], "next": None},
        ("GET", "/windows"): {"items": [window(now_s)], "next": None},
        ("POST", "/windows"): window(now_s), ("DELETE", "/windows/w1"): None,
        ("GET", "/policy"): policy, ("PUT", "/policy"): policy | {"revision": 8},
        ("POST", "/policy/preview"): {
            "starts": [job_id(5)], "preempted": [],
            "moved": [{"job": job_id(4), "before_s": now_s + 720, "after_s": now_s + 2400},
                      {"job": job_id(6), "before_s": None, "after_s": now_s + 600}],
        },
        ("GET", "/policy/revisions"): {"items": _revisions(now_s), "next": None},
        ("GET", "/usage"): {"items": [
            {"key": "nlp", "tenant": "nlp", "gpu_hours": 812.5, "jobs": 40, "attempts": 44},
            {"key": "vision", "tenant": "vision", "gpu_hours": 203.25, "jobs": 120, "attempts": 121},
        ], "next": None},
        ("GET", "/audit"): {"items": [{"id": 1, "at_s": now_s, "actor": "root", "action": "node.drain", "target": "n1",
                                       "data": {"cause": "fan"}}], "next": None},
        ("GET", "/cards/n0%2F3/samples"): {"items": [sample(now_s, 3)], "next": None},
        ("GET", "/schema/job"): {"title": "gpusquad job file"},
        ("GET", "/me"): {"user": "ana", "tenant": "vision", "role": "admin", "scopes": ["read", "submit", "admin"],
                         "is_admin": True, "max_priority": None, "may_choose_lane": True,
                         "token": {"id": "t1", "label": "laptop", "expires_s": None}},
        ("GET", "/tenants"): {"items": [tenant("vision", 2.0, 8), tenant("nlp", 1.0, None)], "next": None},
        ("PUT", "/tenants/vision"): tenant("vision", 3.0, 8),
        ("GET", "/users"): {"items": [user("ana", "vision", "admin"), user("bo", "nlp", off=True)], "next": None},
        ("POST", "/users"): user("eve", "nlp"), ("PATCH", "/users/bo"): user("bo", "nlp"),
        ("GET", "/tokens"): {"items": [token(now_s)], "next": None},
        ("POST", "/tokens"): token(now_s) | {"id": "t2", "token": "gsq_new_token"}, ("DELETE", "/tokens/t1"): None,
        ("GET", "/secrets"): {"items": [{"name": "WANDB_API_KEY"}], "next": None},
        ("PUT", "/secrets/WANDB_API_KEY"): {"name": "WANDB_API_KEY"}, ("DELETE", "/secrets/WANDB_API_KEY"): None,
        ("GET", "/notices/rules"): {"items": [rule(now_s)], "next": None},
        ("POST", "/notices/rules"): rule(now_s), ("DELETE", "/notices/rules/4"): None,
        ("GET", "/notices/outbox"): {"items": [{
            "id": 9, "rule": 4, "job": job_id(8), "kind": "failed", "title": "diverged failed", "tries": 8,
            "next_s": now_s, "state": "dead", "error": "the channel answered 410", "created_s": now_s - HOUR_S,
        }], "next": None},
        ("GET", "/inbox"): {"items": [
            inbox_entry(now_s, 3, "diverged has failed", kind="failed", job=job_id(8)),
            inbox_entry(now_s, 2, "sweep: 412 of 412 jobs ended: 400 succeeded, 12 failed", kind="failed", count=412,
                        group="g1", jobs=412, ends={"succeeded": 400, "failed": 12}, state=None, reason=None,
                        failed=[{"id": job_id(9), "name": "sweep-7"}], read=True),
        ], "next": None, "unread": 1},
        ("POST", "/inbox/read"): {"marked": 1, "unread": 0},
        ("POST", "/notices/9/retry"): {"ok": True}, ("POST", "/notices/test"): {"ok": True, "error": ""},
        ("GET", "/predictions"): predictions(now_s),
        ("GET", "/healthz"): {"ok": True, "reason": ""}, ("GET", "/readyz"): {"ok": True, "reason": ""},
    }  # fmt: skip


def _revisions(now_s: float) -> list[dict[str, Any]]:
    rows = (
        (7, now_s - DAY_S, "root", {"mode": "predictive"}, "after the review"),
        (6, now_s - 9 * DAY_S, "root", {"mode": "fifo", "place": "spread"}, ""),
    )
    return [dict(zip(("revision", "at_s", "by", "settings", "note"), row, strict=True)) for row in rows]
