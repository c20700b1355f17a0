"""Secrets: their names, never what they hold."""

from __future__ import annotations

from typing import TypedDict


class SecretName(TypedDict):
    name: str
