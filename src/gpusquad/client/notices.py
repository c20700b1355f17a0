"""Notices by mail and chat: rules and deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpusquad.client.pages import joined

if TYPE_CHECKING:
    from gpusquad.client.http import Http
    from gpusquad.client.types import NoticeView, RuleView


class NoticesApi:
    """A rule sends events of some kinds to one address."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def rules(self) -> list[RuleView]:
        return self._http.get("notices", "rules")["items"]

    def add(self, url: str, kinds: Sequence[str], label: str = "") -> RuleView:
        return self._http.post("notices", "rules", body={"url": url, "kinds": list(kinds), "label": label})

    def remove(self, rule: int) -> None:
        self._http.delete("notices", "rules", str(rule))

    def outbox(self, state: str | None = None, limit: int | None = 100) -> list[NoticeView]:
        """``waiting``, ``sent`` or ``dead`` (given up)."""
        fetch = lambda query: self._http.get("notices", "outbox", query=query)  # noqa: E731
        return joined(fetch, {"state": state}, limit)["items"]

    def retry(self, notice: int) -> Any:
        return self._http.post("notices", str(notice), "retry")

    def test(self, target: Mapping[str, Any]) -> Any:
        """Send one notice now: to a ``url``, or by a ``rule``."""
        return self._http.post("notices", "test", body=dict(target))
