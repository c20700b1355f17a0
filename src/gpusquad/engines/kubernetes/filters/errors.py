"""What a pod asks for and gpusquad does not do. It is said aloud: a demand that is quietly ignored breaks a promise."""

from __future__ import annotations

from gpusquad.model.errors import Invalid


class UnsupportedRule(Invalid):
    """Names the field of the pod, what is not done about it, and what to write instead."""
