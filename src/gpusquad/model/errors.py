"""Errors that users can fix: field, problem and cure."""

from __future__ import annotations


class Invalid(ValueError):
    """An invalid value from outside the program."""

    def __init__(self, field: str, problem: str, cure: str = "") -> None:
        self.field = field
        self.problem = problem
        self.cure = cure
        super().__init__(f"{field}: {problem}" + (f" ({cure})" if cure else ""))

    def under(self, prefix: str) -> Invalid:
        """The same error with the field's path prefixed."""
        return type(self)(f"{prefix}.{self.field}", self.problem, self.cure)


class NotReady(Invalid):
    """The request is valid but cannot be served now, for a cause on this side that may pass."""
