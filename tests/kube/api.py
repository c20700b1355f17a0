"""Kubernetes API client that returns the server's raw JSON."""

from __future__ import annotations

import contextlib
import json
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

Object = dict[str, Any]

TIMEOUT_S = 30.0


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


def is_refused(request: Callable[[], object], reason: str) -> bool:
    """Return whether the server refuses the request with a message that contains ``reason``."""
    try:
        request()
    except Refused as error:
        return reason in str(error)
    return False


class Api:
    """API client of one user. Safe to share between threads."""

    def __init__(self, url: str, certificate: Path, token: str) -> None:
        self._http = httpx.Client(
            base_url=url,
            verify=ssl.create_default_context(cafile=str(certificate)),
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT_S,
            trust_env=False,  # no proxy: everything is on loopback
            limits=httpx.Limits(max_connections=None),
        )

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, **query: str) -> Object:
        return self._send("GET", path, params=query)

    def post(self, path: str, content: Object) -> Object:
        return self._send("POST", path, json=content)

    def put(self, path: str, content: Object) -> Object:
        return self._send("PUT", path, json=content)

    def patch(self, path: str, content: Object) -> Object:
        """Send a JSON merge patch: named fields are replaced, null removes a field."""
        headers = {"Content-Type": "application/merge-patch+json"}
        return self._send("PATCH", path, content=json.dumps(content).encode(), headers=headers)

    def delete(self, path: str, **query: str) -> Object:
        return self._send("DELETE", path, params=query)

    def text(self, path: str, **query: str) -> str:
        """Return an answer that is not JSON, for example of /readyz or of a pod's log."""
        return self._answer("GET", path, params=query).text

    def watch(self, path: str, version: str, timeout_s: float, **query: str) -> Iterator[Object]:
        """Yield the events after ``version`` until the server or the timeout ends the stream."""
        parameters = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true", **query}
        with contextlib.suppress(httpx.ReadTimeout, httpx.RemoteProtocolError):
            yield from self._stream(path, parameters, timeout_s)

    def until(self, path: str, condition: Callable[[list[Object]], bool], timeout_s: float = TIMEOUT_S,
              **query: str) -> list[Object]:  # fmt: skip
        """Wait until the objects of a collection meet the condition, and return them."""
        deadline = time.monotonic() + timeout_s
        objects: dict[str, Object] = {}
        while (left_s := deadline - time.monotonic()) > 0:
            listed = self.get(path, **query)
            objects = {_key(item): item for item in listed["items"]}
            if condition(list(objects.values())):
                return list(objects.values())
            for event in self.watch(path, listed["metadata"]["resourceVersion"], left_s, **query):
                if event["type"] == "ERROR":
                    break  # too old a version: list again
                if _apply(objects, event) and condition(list(objects.values())):
                    return list(objects.values())
                if time.monotonic() > deadline:
                    break
        seen = [json.dumps({key: item.get(key) for key in ("metadata", "spec", "status")}) for item in objects.values()]
        raise TimeoutError(
            f"{path} {query or ''} did not meet the condition within {timeout_s:g} s; "
            f"last seen: {len(seen)} objects, the first of them:\n{''.join(seen[:1])}"
        )

    def _stream(self, path: str, parameters: dict[str, str], timeout_s: float) -> Iterator[Object]:
        with self._http.stream("GET", path, params=parameters, timeout=max(timeout_s, 0.05)) as answer:
            if answer.status_code >= 400:
                answer.read()
                raise _refusal(answer)
            for line in answer.iter_lines():
                yield json.loads(line)

    def _send(self, method: str, path: str, **options: Any) -> Object:
        return self._answer(method, path, **options).json()

    def _answer(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = self._http.request(method, path, **options)
        if answer.status_code >= 400:
            raise _refusal(answer)
        return answer


def _refusal(answer: httpx.Response) -> Refused:
    try:
        message = answer.json()["message"]
    except (ValueError, KeyError, TypeError):
        message = answer.text
    return Refused(answer.status_code, message)


def _apply(objects: dict[str, Object], event: Object) -> bool:
    """Apply a watch event to the objects. Return False if it changes none."""
    if event["type"] == "BOOKMARK":
        return False
    if event["type"] == "DELETED":
        objects.pop(_key(event["object"]), None)
    else:
        objects[_key(event["object"])] = event["object"]
    return True


def _key(item: Object) -> str:
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
