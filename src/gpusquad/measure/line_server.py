"""A process that answers requests: one JSON object per line in, one out, until its input ends."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, TextIO

Answer = dict[str, Any]
Verb = Callable[[Mapping[str, Any]], Answer]


def serve(verbs: Mapping[str, Verb]) -> None:
    """Answer on this process's original standard output. Other output is redirected to standard error."""
    answers = _own_output()
    requests = _requests()
    while (line := requests.get()) is not None:
        request = json.loads(line)
        answers.write(json.dumps(_answer(verbs, request)) + "\n")
        answers.flush()
        if request.get("do") == "quit":
            return


def _own_output() -> TextIO:
    """Redirect what programs print, so that it does not mix with the answers."""
    own = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return own


def _requests() -> queue.SimpleQueue[str | None]:
    """Read in a thread, so that a busy worker ends as soon as the requesting process is gone."""
    requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    busy_grace_s = 10.0

    def read() -> None:
        for line in sys.stdin:
            requests.put(line)
        requests.put(None)
        timer = threading.Timer(busy_grace_s, os._exit, (1,))
        timer.daemon = True
        timer.start()

    threading.Thread(target=read, daemon=True).start()
    return requests


def _answer(verbs: Mapping[str, Verb], request: Mapping[str, Any]) -> Answer:
    """Report errors as an answer instead of raising them, so that the process stays warm."""
    verb = verbs.get(str(request.get("do")))
    if verb is None:
        return {"error": f"cannot {request.get('do')!r}"}
    try:
        return verb(request)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:2000]}
