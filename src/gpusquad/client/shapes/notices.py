"""Notices, and the rules that send them."""

from __future__ import annotations

from typing import TypedDict


class NoticeRule(TypedDict):
    id: int
    kinds: list[str]
    url: str
    label: str
    created_s: float


class Notice(TypedDict):
    id: int
    rule: int
    job: str
    kind: str
    title: str
    state: str
    tries: int
    error: str
    created_s: float
