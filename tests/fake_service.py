"""A service that answers as the API's description says, from canned data, and remembers what it was asked.

``python -m tests.fake_service`` runs one by itself, to look at what the command line makes of it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "a-token-for-tests"
PREFIX = "/api/v1"
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0
GIB = 2**30


@dataclass
class Asked:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any
    connection: int


@dataclass
class Told:
    """One answer. ``parts``: a stream that sends these and closes. ``drop``: the connection breaks instead."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    parts: Sequence[bytes] | None = None
    raw: bytes | None = None
    drop: bool = False
    before: Callable[[], None] | None = None


class FakeService:
    """Answers by (method, path). A list is told one after the other, its last one for ever."""

    def __init__(self) -> None:
        self.now_s = time.time()
        self.asked: list[Asked] = []
        self.answers: dict[tuple[str, str], list[Told]] = {}
        self._connections = 0
        self._lock = threading.Lock()
        for (method, path), body in canned(self.now_s).items():
            self.tell(method, path, body)
        self.tell("HEAD", "/index.html", None)  # the dashboard

    def tell(self, method: str, path: str, *bodies: Any) -> None:
        """What to answer from now on; plain data, or ``Told``."""
        self.answers[method, path] = [body if isinstance(body, Told) else Told(body) for body in bodies]

    def fail(
        self, method: str, path: str, status: int, code: str, message: str, field: str = "", cure: str = ""
    ) -> None:
        self.tell(method, path, error(status, code, message, field, cure))

    def of(self, method: str, path: str) -> list[Asked]:
        """The requests of one kind; the path is without the API's prefix."""
        return [asked for asked in self.asked if (asked.method, asked.path.removeprefix(PREFIX)) == (method, path)]

    def answer(self, asked: Asked) -> Told:
        with self._lock:
            self.asked.append(asked)
            if asked.path.startswith("/api/") and asked.headers.get("authorization") != f"Bearer {TOKEN}":
                return error(401, "unauthenticated", "the token is not valid", "Authorization", "log in")
            told = self.answers.get((asked.method, asked.path.removeprefix(PREFIX)))
            if told is None:
                return error(404, "not_found", f"there is no {asked.path.removeprefix(PREFIX)}", "job")
            return told.pop(0) if len(told) > 1 else told[0]

    def new_connection(self) -> int:
        with self._lock:
            self._connections += 1
            return self._connections

    @property
    def connections(self) -> int:
        return self._connections


def error(status: int, code: str, message: str, field: str = "", cure: str = "", **headers: str) -> Told:
    told = {"code": code, "message": message, "field": field, "cure": cure}
    return Told({"error": told}, status, {name.replace("_", "-"): value for name, value in headers.items()})


def sse(event: str, data: Any, event_id: str = "") -> bytes:
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {event}\ndata: {json.dumps(data)}\n\n".encode()


@contextmanager
def running(service: FakeService, port: int = 0) -> Iterator[str]:
    """Its address while it runs."""
    server = _Server(("127.0.0.1", port), _handler(service))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves in the middle of a stream is no error."""


def _handler(service: FakeService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            self.connection_number = service.new_connection()

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            path = unquote(parts.path) if "%2F" not in parts.path else parts.path
            asked = Asked(self.command, path, parse_qs(parts.query), headers, body, self.connection_number)
            self._tell(service.answer(asked))

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

        def _tell(self, told: Told) -> None:
            if told.before is not None:
                told.before()
            if told.drop:
                self.close_connection = True
                self.connection.close()
            elif told.parts is not None:
                self._stream(told.parts)
            else:
                self._whole(told)

        def _whole(self, told: Told) -> None:
            data = told.raw if told.raw is not None else b"" if told.status == 204 else json.dumps(told.body).encode()
            (self.send_response_only if "Date" in told.headers else self.send_response)(told.status)
            for name, value in {"Content-Type": "application/json", **told.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def _stream(self, parts: Sequence[bytes]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in parts:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler


# -- canned data ---------------------------------------------------------------------------------------------------


def job(now_s: float, number: int, name: str, state: str = "pending", **more: Any) -> dict[str, Any]:
    """A job as the API shows it."""
    runs = state in ("running", "starting", "stopping")
    view = {
        "id": job_id(number), "name": name, "tenant": "vision", "user": "ana", "queue": "", "group": None,
        "state": state, "attempt": 0, "priority": "normal", "lane": "", "gpus": 2, "tasks": 1,
        "submitted_s": now_s - 2 * HOUR_S, "started_s": now_s - HOUR_S if runs else None, "ended_s": None, "cause": "",
        "placement": [{"task": 0, "node": "n0", "cards": ["n0/0", "n0/1"]}] if runs else [],
        "result": None, "progress": None, "forecast": run_time(5400.0, 9000.0, "history"),
        "retries_left": 0, "preemptions": 0, "after": [],
    }  # fmt: skip
    return view | more


def run_time(mid_s: float, high_s: float, source: str) -> dict[str, Any]:
    return {"mid_s": mid_s, "high_s": high_s, "source": source, "confidence": 0.75}


RECORD = {"count": 120, "within_ratio": 0.91, "median_ratio": 0.14}


def job_id(number: int) -> str:
    """Ids of one hour share their start, as ULIDs do."""
    return f"01jcp6m8qwz4t7y2k9{number:04d}bxdf"


def queued(now_s: float, number: int, name: str, position: int, eta_min: float | None, why: tuple, **more: Any) -> dict:
    eta_s = None if eta_min is None else now_s + eta_min * MINUTE_S
    high_s = None if eta_min is None else now_s + 2 * eta_min * MINUTE_S
    place = {"position": position, "eta_s": eta_s, "eta_high_s": high_s, "promised_s": None}
    place["reason"] = {"code": why[0], "message": why[1]}
    return job(now_s, number, name, **more) | place


NO_BLOCK = ("no_block", "needs 8 GPUs on one node, the largest free block is 5")
HOSTILE = "<img src=x onerror=alert(1)> [red]x[/red] \x1b[31mred\x1b[2J\u202egnp.exe"


def canned(now_s: float) -> dict[tuple[str, str], Any]:
    runs = [
        job(now_s, 1, "vgg16-imagenet", "running", gpus=4, progress=_progress(now_s, 0.62),
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
        "position": 1, "accuracy": {"count": 134, "within_ratio": 0.91, "median_error_s": 130.0},
    }  # fmt: skip
    policy = {
        "revision": 7, "mode": "predictive", "order": "sjf", "plan": "easy:backfill=shortest", "place": "binpack",
        "divide": "jct", "preemption": {"by": "priority", "min_run_s": 600.0, "most_per_job": 3},
        "modes": ["fifo", "fair", "predictive"],
        "since_s": now_s - DAY_S, "by": "root", "note": "after the review",
    }  # fmt: skip
    return {
        ("GET", "/jobs"): {"items": [_as_job(view) for view in (*runs, *waits, *ended)], "next": None},
        ("POST", "/jobs"): {"group": None, "jobs": [_as_job(one)], **UNNOTED},
        **{("GET", f"/jobs/{view['id']}"): _as_job(view) | {"run_record": RECORD} for view in (*runs, *waits, *ended)},
        ("GET", "/jobs/llama-finetune"): _as_job(one) | {"run_record": None},
        ("GET", "/pods/vision/llama-finetune-0/job"): _as_job(one),
        ("PATCH", "/jobs/llama-finetune"): _as_job(one) | {"priority": "high"},
        ("POST", "/jobs/llama-finetune/cancel"): _as_job(one) | {"state": "cancelled", "ended_s": now_s},
        ("POST", "/jobs/llama-finetune/hold"): _as_job(one) | {"state": "held"},
        ("POST", "/jobs/llama-finetune/release"): _as_job(one),
        ("POST", "/jobs/llama-finetune/resubmit"): {
            "group": None, "jobs": [_as_job(one) | {"id": job_id(10)}], **UNNOTED,
        },
        ("GET", "/jobs/llama-finetune/why"): {"state": "pending", "position": 1, "reasons": _reasons()},
        ("GET", "/jobs/llama-finetune/when"): when,
        ("GET", f"/jobs/{one['id']}/when"): when,
        ("GET", f"/jobs/{one['id']}/why"): {"state": "pending", "position": 1, "reasons": _reasons()},
        ("GET", "/jobs/llama-finetune/source"): {"spec": {"command": ["python", "train.py"], "gpus": 8}},
        ("GET", "/jobs/llama-finetune/story"): {"items": _story(now_s), "next": None},
        ("GET", "/jobs/llama-finetune/logs"): {
            "task": 0, "attempt": 0, "offset": 0, "next": 22, "text": "step 1\nstep 2\nhalf a l", "end": True,
        },
        ("POST", "/whatif"): {
            "refused": None, "starts_now": False, "placement": [], "delayed": [{"job": job_id(5), "by_s": 900.0}],
            "preempted": [], "others": 2, "jobs": 1, "reasons": _reasons(), **UNNOTED,
            **{k: when[k] for k in ("start_s", "high_s", "promised_s", "run")},
        },
        ("POST", "/recommend"): recommendation(),
        ("GET", "/queue"): {
            "items": waits, "running": runs, "next": None,
            "counts": {"pending": 3, "running": 2, "starting": 1, "held": 1},
        },
        ("GET", "/nodes"): {"items": _nodes(now_s), "next": None},
        ("GET", "/cluster"): {
            "gpus": 32, "free": 11, "usable": {"1": 11, "2": 5, "4": 2, "8": 0}, "unhealthy": 1, "taken_outside": 1,
            "simulated": False, "mode": "predictive",
        },
        ("POST", "/nodes/n1/drain"): {"ok": True}, ("POST", "/nodes/n1/undrain"): {"ok": True},
        ("POST", "/cards/n0%2F3/cordon"): {"ok": True}, ("POST", "/cards/n0%2F3/uncordon"): {"ok": True},
        ("GET", "/cards"): {"items": [_division(now_s, 0), _division(now_s, 1, "jct", own=False)], "next": None},
        ("GET", "/cards/n0%2F0"): _division(now_s, 0) | {"now": _divided()},
        ("GET", "/cards/0"): _division(now_s, 0) | {"now": _divided()},
        ("GET", "/cards/n0%2F1"): _division(now_s, 1, "jct", own=False) | {"now": None},
        **{("PUT", f"/cards/{card}/divide"): _division(now_s, at)
           for card, at in (("0", 0), ("n0%2F0", 0), ("n0%2F1", 1))},
        ("GET", "/cards/0/divide/revisions"): {"items": [
            {"revision": 3, "at_s": now_s - 60, "by": "root", "card": "n0/0", "policy": "slo", "note": HOSTILE},
            {"revision": 2, "at_s": now_s - 90, "by": "root", "card": "n0/0", "policy": None, "note": ""},
        ], "next": None},
        ("GET", "/windows"): {"items": [_window(now_s)], "next": None},
        ("POST", "/windows"): _window(now_s), ("DELETE", "/windows/w1"): None,
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
        ("GET", "/cards/n0%2F3/samples"): {"items": [_sample(now_s, 3)], "next": None},
        ("GET", "/schema/job"): {"title": "gpusquad job file"},
        ("GET", "/me"): {"user": "ana", "tenant": "vision", "role": "admin", "scopes": ["read", "submit", "admin"],
                         "is_admin": True, "token": {"id": "t1", "label": "laptop", "expires_s": None}},
        ("GET", "/tenants"): {"items": [_tenant("vision", 2.0, 8), _tenant("nlp", 1.0, None)], "next": None},
        ("PUT", "/tenants/vision"): _tenant("vision", 3.0, 8),
        ("GET", "/users"): {"items": [_user("ana", "vision", "admin"), _user("bo", "nlp", off=True)], "next": None},
        ("POST", "/users"): _user("eve", "nlp"), ("PATCH", "/users/bo"): _user("bo", "nlp"),
        ("GET", "/tokens"): {"items": [_token(now_s)], "next": None},
        ("POST", "/tokens"): _token(now_s) | {"id": "t2", "token": "gsq_new_token"}, ("DELETE", "/tokens/t1"): None,
        ("GET", "/secrets"): {"items": [{"name": "WANDB_API_KEY"}], "next": None},
        ("PUT", "/secrets/WANDB_API_KEY"): {"name": "WANDB_API_KEY"}, ("DELETE", "/secrets/WANDB_API_KEY"): None,
        ("GET", "/notices/rules"): {"items": [_rule(now_s)], "next": None},
        ("POST", "/notices/rules"): _rule(now_s), ("DELETE", "/notices/rules/4"): None,
        ("GET", "/notices/outbox"): {"items": [{
            "id": 9, "rule": 4, "job": job_id(8), "kind": "failed", "title": "diverged failed", "tries": 8,
            "next_s": now_s, "state": "dead", "error": "the channel answered 410", "created_s": now_s - HOUR_S,
        }], "next": None},
        ("POST", "/notices/9/retry"): {"ok": True}, ("POST", "/notices/test"): {"ok": True, "error": ""},
        ("GET", "/predictions"): _predictions(now_s),
        ("GET", "/healthz"): {"ok": True, "reason": ""}, ("GET", "/readyz"): {"ok": True, "reason": ""},
    }  # fmt: skip


def _division(now_s: float, index: int, policy: str = "slo", own: bool = True) -> dict[str, Any]:
    return {
        "id": f"n0/{index}", "uuid": None, "node": "n0", "index": index, "model": "NVIDIA H200",
        "memory_bytes": 141 * GIB, "simulated": False,
        "divide": {
            "policy": policy, "own": own, "of_mode": "jct", "revision": 3 if own else None,
            "since_s": now_s - 60 if own else None, "by": "root" if own else "", "note": "demo" if own else "",
            "effect": "live" if own else "unused", "message": "the card is divided by it now" if own else
            "nobody shares this card now; holds as soon as somebody does",
        },
    }  # fmt: skip


def _divided() -> dict[str, Any]:
    mine = {
        "job": job_id(3), "name": HOSTILE, "user": "ana", "id": "uid/main", "groups": 5, "sm_ratio": 1 / 3,
        "used_bytes": 10 * GIB, "quota_bytes": 20 * GIB, "peak_bytes": 12 * GIB, "weight": 2.0, "priority": 1,
        "slo": {"latency_us": 20_000}, "attainment_ratio": 0.972, "credit_us": 400, "waiting": 1, "waited_s": 3.5,
        "is_idle": False, "processes": 2, "isolation": "isolated", "note": "",
    }  # fmt: skip
    hidden = dict.fromkeys(mine) | {
        "groups": 0, "sm_ratio": 1.0, "used_bytes": 3 * GIB, "quota_bytes": 0, "peak_bytes": 3 * GIB,
        "isolation": "shared", "note": "",
    }  # fmt: skip
    free = mine | {"name": "batch", "credit_us": None, "waiting": 0, "is_idle": True, "slo": {}, "weight": 1.0}
    return {
        "policy": "slo", "configuration": "semi-spatial", "length_us": 2500, "squads": 12345, "groups": 15,
        "why": f"{HOSTILE} is at risk", "failure": "", "pool": "one MPS server", "tenants": [mine, hidden, free],
        "stranger_count": 2, "strangers": [{"pid": 4242, "name": HOSTILE, "memory_bytes": GIB}], "rule": "report",
    }  # fmt: skip


def _predictions(now_s: float) -> dict[str, Any]:
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
    }  # fmt: skip


def recommendation() -> dict[str, Any]:
    """Users ask for eight where two would do."""
    why = "6 of the 8 cards were idle in the last 3 runs"
    peak = "peak 9.8 GiB in the middle, 11 GiB in nine of ten (12 runs of resnet50 by ana)"
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


def _as_job(view: dict[str, Any]) -> dict[str, Any]:
    return {name: deepcopy(value) for name, value in view.items() if name not in _QUEUE_ONLY}


UNNOTED = {"chosen": [], "warnings": []}
_QUEUE_ONLY = ("position", "eta_s", "eta_high_s", "promised_s", "reason")


def _progress(now_s: float, ratio: float) -> dict[str, Any]:
    return {"step": 100 * ratio, "total": 100.0, "ratio": ratio, "at_s": now_s - 5}


def _reasons() -> list[dict[str, Any]]:
    return [
        {"code": "no_block", "message": NO_BLOCK[1], "cure": "ask for 4 GPUs on each of two nodes",
         "numbers": {"needed": 8, "largest": 5}, "who": []},
        {"code": "reserved", "message": "would delay sweep-lr-0.1 (promised in 40m): it may run 2h30m",
         "cure": "a run of at most 40m may slip in before", "numbers": {"ahead_us": 1}, "who": [job_id(5)]},
    ]  # fmt: skip


def _story(now_s: float) -> list[dict[str, Any]]:
    rows = [
        (1, -7200, "submitted", "pending", 0, "", "ana", None),
        (2, -7000, "started", "running", 0, "8 cards of n0 came free", "", {"cards": ["n0/0"]}),
        (3, -3600, "preempted", "preempting", 0, "urgent work of bo took its cards", "bo", None),
        (4, -3590, "requeued", "pending", 1, "", "", None),
    ]
    names = ("id", "at_s", "kind", "state", "attempt", "cause", "actor", "data")
    return [dict(zip(names, (row[0], now_s + row[1], *row[2:]), strict=True)) for row in rows]


def _nodes(now_s: float) -> list[dict[str, Any]]:
    nodes = [_node(f"n{number}", now_s) for number in range(4)]
    nodes[3] |= {"up": False, "drained": True}
    nodes[2]["windows"] = [_window(now_s)]
    cards = nodes[0]["cards"]
    cards[0] |= {"state": "busy", "jobs": [{"id": job_id(1), "name": "vgg16-imagenet", "user": "ana", "share": None}]}
    cards[1] |= {"state": "shared", "jobs": [
        {"id": job_id(3), "name": HOSTILE, "user": "ana",
         "share": {"sm": 0.25, "memory_bytes": 10 * GIB, "isolation": "shared"}},
        {"id": None, "name": None, "user": None, "share": {"sm": 0.5, "memory_bytes": None, "isolation": "shared"}},
    ]}  # fmt: skip
    cards[2] |= {"state": "taken_outside", "cause": "pid 4242 (python) of carol, not started by gpusquad"}
    cards[3] |= {"state": "cordoned", "cause": "ECC errors", "sample": None}
    return nodes


def _node(name: str, now_s: float) -> dict[str, Any]:
    cards = [
        {"id": f"{name}/{index}", "uuid": f"GPU-{name}-{index}", "model": "NVIDIA H100 80GB HBM3", "index": index,
         "memory_bytes": 80 * GIB, "state": "free", "cause": "", "jobs": [], "simulated": False,
         "sample": _sample(now_s, index)}
        for index in range(8)
    ]  # fmt: skip
    return {
        "id": name, "rack": "", "up": True, "drained": False, "cpu_milli": 192_000, "cpu_free_milli": 64_500,
        "memory_bytes": 2048 * GIB, "memory_free_bytes": 900 * GIB, "cards": cards, "windows": [],
    }  # fmt: skip


def _sample(now_s: float, index: int) -> dict[str, Any]:
    return {"at_s": now_s - 2, "utilisation_ratio": index / 7, "memory_utilisation_ratio": index / 14,
            "memory_used_bytes": index * 10 * GIB, "power_w": 80.0 + 85 * index, "temperature_c": 40.0 + 4 * index,
            "sm_clock_mhz": 1500.0}  # fmt: skip


def _window(now_s: float) -> dict[str, Any]:
    return {"id": "w1", "nodes": ["n2", "n3"], "start_s": now_s + DAY_S, "end_s": now_s + DAY_S + 4 * HOUR_S,
            "by": "root", "cause": "new driver"}  # fmt: skip


def _revisions(now_s: float) -> list[dict[str, Any]]:
    rows = (
        (7, now_s - DAY_S, "root", {"mode": "predictive"}, "after the review"),
        (6, now_s - 9 * DAY_S, "root", {"mode": "fifo", "place": "spread"}, ""),
    )
    return [dict(zip(("revision", "at_s", "by", "settings", "note"), row, strict=True)) for row in rows]


def _tenant(name: str, weight: float, limit: int | None) -> dict[str, Any]:
    return {"name": name, "weight": weight, "guaranteed_gpus": 4, "limit_gpus": limit, "reclaim_s": 60.0,
            "max_pending": None, "on_hang": "warn", "run_as": None}  # fmt: skip


def _user(name: str, tenant: str, role: str = "member", off: bool = False) -> dict[str, Any]:
    return {"name": name, "tenant": tenant, "role": role, "disabled": off}


def _token(now_s: float) -> dict[str, Any]:
    return {"id": "t1", "user": "ana", "label": "laptop", "scopes": ["read", "submit"], "created_s": now_s - 9 * DAY_S,
            "expires_s": now_s + 30 * DAY_S, "revoked_s": None, "last_used_s": now_s - 60}  # fmt: skip


def _rule(now_s: float) -> dict[str, Any]:
    return {"id": 4, "user": "ana", "kinds": ["failed", "hung"], "url": "slack://***", "label": "team channel",
            "created_s": now_s - DAY_S}  # fmt: skip


if __name__ == "__main__":
    with running(FakeService(), 8642) as url:
        print(f"export GPUSQUAD_URL={url} GPUSQUAD_TOKEN={TOKEN}")
        threading.Event().wait()
