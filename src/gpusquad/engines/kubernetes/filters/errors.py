"""Errors for constraints that gpusquad does not support. They are refused, because ignoring one would violate it."""

from __future__ import annotations

from gpusquad.model.errors import Invalid


class UnsupportedRule(Invalid):
    """Names the field of the pod, what is not supported, and what to write instead."""
