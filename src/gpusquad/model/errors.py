"""The errors that people can do something about: they name the field, what is wrong and the cure."""

from __future__ import annotations


class Invalid(ValueError):
    """A value from outside that cannot be used."""

    def __init__(self, field: str, problem: str, cure: str = "") -> None:
        self.field = field
        self.problem = problem
        self.cure = cure
        super().__init__(f"{field}: {problem}" + (f" ({cure})" if cure else ""))

    def under(self, prefix: str) -> Invalid:
        """The same error seen from the object that holds the field."""
        return type(self)(f"{prefix}.{self.field}", self.problem, self.cure)


class NotReady(Invalid):
    """Nothing is wrong with what was asked for: something here is not in order, and may be another time."""
