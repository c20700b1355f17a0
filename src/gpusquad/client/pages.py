"""Joins the pages of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

MAX_PER_PAGE = 1000

Fetch = Callable[[Mapping[str, Any]], Any]
"""Reads one page for a query."""


def pages(fetch: Fetch, query: Mapping[str, Any], limit: int | None) -> Iterator[Any]:
    """Items of all pages, at most ``limit``."""
    left, cursor = limit, None
    while True:
        size = MAX_PER_PAGE if left is None else min(left, MAX_PER_PAGE)
        page = fetch({**query, "limit": size, "cursor": cursor})
        yield page
        cursor = page.get("next")
        if left is not None:
            left -= len(page["items"])
        if cursor is None or not page["items"] or (left is not None and left <= 0):
            return


def joined(fetch: Fetch, query: Mapping[str, Any], limit: int | None) -> Any:
    """All pages as one: ``{"items": …, "next": …}``."""
    items: list[Any] = []
    following = None
    for page in pages(fetch, query, limit):
        items += page["items"]
        following = page.get("next")
    return {"items": items, "next": following}
